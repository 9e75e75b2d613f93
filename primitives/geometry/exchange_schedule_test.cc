#include "primitives/geometry/exchange_schedule.h"

#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "gtest/gtest.h"
#include "primitives/geometry/distribution.h"
#include "primitives/geometry/dtype.h"
#include "primitives/geometry/layout.h"
#include "primitives/geometry/mesh.h"
#include "primitives/geometry/window.h"

namespace adjoin {
namespace {

Layout Line(const char* placement, std::vector<int64_t> shape = {6}) {
  return *Layout::Create(std::move(shape), DType::kFloat32, *Mesh::Create({3}), {*Placement::Parse(placement)});
}

ExchangeSchedule ScheduleOf(const Layout& from, const Layout& to, int rank) {
  return *ExchangeSchedule::Build(Distribution::Of(from), Distribution::Of(to), rank);
}

// (peer, elements) of each transfer.
using Peers = std::vector<std::pair<int, int64_t>>;
Peers PeersOf(const std::vector<Transfer>& transfers) {
  Peers peers;
  for (const Transfer& transfer : transfers) peers.push_back({transfer.peer, transfer.elements});
  return peers;
}

// Every row of the table of one-axis movements, seen from rank 1 of 3; each reversed must be its adjoint's row.
TEST(ExchangeScheduleTest, OneAxis) {
  const struct {
    const char* from;
    const char* to;
    Peers sends, recvs;
    const char *adjoint_from, *adjoint_to;
  } cases[] = {
      {"S(0)", "S(0)", {{1, 2}}, {{1, 2}}, "S(0)", "S(0)"},
      {"S(0)", "B", {{0, 2}, {1, 2}, {2, 2}}, {{0, 2}, {1, 2}, {2, 2}}, "P", "S(0)"},
      {"S(0)", "P", {{1, 2}}, {{1, 2}}, "B", "S(0)"},
      {"B", "S(0)", {{1, 2}}, {{1, 2}}, "S(0)", "P"},
      {"B", "B", {{1, 6}}, {{1, 6}}, "P", "P"},
      {"B", "P", {}, {}, "B", "P"},
      {"P", "S(0)", {{0, 2}, {1, 2}, {2, 2}}, {{0, 2}, {1, 2}, {2, 2}}, "S(0)", "B"},
      {"P", "B", {{0, 6}, {1, 6}, {2, 6}}, {{0, 6}, {1, 6}, {2, 6}}, "P", "B"},
      {"P", "P", {{1, 6}}, {{1, 6}}, "B", "B"},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(testing::Message() << c.from << " -> " << c.to);
    const ExchangeSchedule schedule = ScheduleOf(Line(c.from), Line(c.to), 1);
    EXPECT_EQ(PeersOf(schedule.sends()), c.sends);
    EXPECT_EQ(PeersOf(schedule.recvs()), c.recvs);
    EXPECT_EQ(schedule.Reversed(), ScheduleOf(Line(c.adjoint_from), Line(c.adjoint_to), 1));
    EXPECT_EQ(schedule.accumulates(), *c.from == 'P' && *c.to != 'P');
  }
  EXPECT_EQ(PeersOf(ScheduleOf(Line("B"), Line("P"), 0).sends()), (Peers{{0, 6}}));
}

TEST(ExchangeScheduleTest, TransposesByBoxes) {
  const ExchangeSchedule schedule = ScheduleOf(Line("S(0)", {6, 5}), Line("S(1)", {6, 5}), 2);
  ASSERT_EQ(schedule.sends().size(), 3u);
  EXPECT_EQ(schedule.sends()[1].regions, (std::vector<Region>{{{0, 2}, {2, 2}}}));
  EXPECT_EQ(schedule.recvs()[1].regions, (std::vector<Region>{{{2, 0}, {2, 1}}}));
  EXPECT_EQ(schedule.ElementsSent(), 8);
  EXPECT_EQ(schedule.from_shape(), (std::vector<int64_t>{2, 5}));
  EXPECT_EQ(schedule.to_shape(), (std::vector<int64_t>{6, 1}));
}

TEST(ExchangeScheduleTest, AcrossMeshesReplicasAreDealtOutAndOwnCopiesKept) {
  const Layout from = *Layout::Replicated({4}, DType::kFloat32, {0, 1});
  const Layout to = *Layout::Replicated({4}, DType::kFloat32, {2, 3, 4, 1, 5});
  EXPECT_EQ(PeersOf(ScheduleOf(from, to, 0).sends()), (Peers{{2, 4}, {4, 4}, {5, 4}}));
  EXPECT_EQ(PeersOf(ScheduleOf(from, to, 1).sends()), (Peers{{3, 4}, {1, 4}}));  // as in the mesh
  EXPECT_EQ(PeersOf(ScheduleOf(from, to, 1).recvs()), (Peers{{1, 4}}));
  // Towards P only the first partial receives.
  EXPECT_EQ(PeersOf(ScheduleOf(from, *to.Dual(), 1).sends()), Peers{});
  EXPECT_EQ(PeersOf(ScheduleOf(from, *to.Dual(), 2).recvs()), (Peers{{0, 4}}));
  EXPECT_EQ(PeersOf(ScheduleOf(from, *to.Dual(), 3).recvs()), Peers{});
}

// Rank 1 has a copy of the first half itself; of the second half it takes the copy that its turn gives, not the one at
// its own coordinate.
TEST(ExchangeScheduleTest, KeepsOnlyItsOwnIndices) {
  const Layout from =
      *Layout::Create({4}, DType::kFloat32, *Mesh::Create({2, 2}), {Placement::Split(0), Placement::Broadcast()});
  const Layout to = *Layout::Replicated({4}, DType::kFloat32, {2, 3, 1});
  EXPECT_EQ(PeersOf(ScheduleOf(from, to, 1).recvs()), (Peers{{1, 2}, {2, 2}}));
}

TEST(ExchangeScheduleTest, GivesARankOutsideTheMeshesNothing) {
  const ExchangeSchedule schedule = ScheduleOf(Line("S(0)", {6, 5}), Line("B", {6, 5}), 7);
  EXPECT_TRUE(schedule.sends().empty());
  EXPECT_TRUE(schedule.recvs().empty());
  EXPECT_EQ(schedule.to_shape(), (std::vector<int64_t>{0, 0}));
}

// With a circular boundary rank 1 of 2 gets both its neighbours' cells from rank 0 in one message: destination piece by
// destination piece.
TEST(ExchangeScheduleTest, CircularHalo) {
  const Layout x = *Layout::Partition({6}, DType::kFloat32, {2}, {0, 1});
  Window::Options options;
  options.kernel = 3;
  options.pad_lo = options.pad_hi = 1;
  options.boundary = Boundary::kCircular;
  const Distribution to = *Distribution::Reads(x, {{0, *Window::Create(options)}}, x);
  const ExchangeSchedule schedule = *ExchangeSchedule::Build(Distribution::Of(x), to, 1);
  ASSERT_EQ(schedule.recvs().size(), 2u);
  EXPECT_EQ(schedule.recvs()[0].regions, (std::vector<Region>{{{0}, {1}}, {{4}, {1}}}));
  EXPECT_EQ(schedule.recvs()[1].regions, (std::vector<Region>{{{1}, {3}}}));
  EXPECT_EQ(schedule.sends()[0].regions, (std::vector<Region>{{{2}, {1}}, {{0}, {1}}}));
  EXPECT_FALSE(schedule.accumulates());
  EXPECT_TRUE(schedule.Reversed().accumulates());
}

TEST(ExchangeScheduleTest, DropsTheSendsOrTheReceives) {
  const ExchangeSchedule schedule = ScheduleOf(Line("P"), Line("B"), 1);
  EXPECT_TRUE(schedule.WithoutSends().sends().empty());
  EXPECT_EQ(schedule.WithoutSends().recvs(), schedule.recvs());
  EXPECT_TRUE(schedule.WithoutRecvs().recvs().empty());
  EXPECT_FALSE(schedule.WithoutRecvs().accumulates());
}

// A tensor of 2^42 elements (16 TiB of float32): every extent and offset in 64 bits.
TEST(ExchangeScheduleTest, HandlesHugeTensors) {
  const int64_t side = int64_t{1} << 21;
  const Mesh mesh = *Mesh::Create({4});
  const Layout rows = *Layout::Create({side, side}, DType::kFloat32, mesh, {Placement::Split(0)});
  const Layout columns = *Layout::Create({side, side}, DType::kFloat32, mesh, {Placement::Split(1)});
  const ExchangeSchedule schedule = ScheduleOf(rows, columns, 3);
  EXPECT_EQ(schedule.ElementsSent(), 3 * (side / 4) * (side / 4));
  EXPECT_EQ(schedule.recvs()[2].elements, (side / 4) * (side / 4));
  const int64_t line = int64_t{1} << 42;
  const Layout flat = *Layout::Create({line}, DType::kFloat32, mesh, {Placement::Split(0)});
  const Layout uneven =
      *Layout::Create({line}, DType::kFloat32, mesh, {Placement::Split(0)}, {{0, {line - 3, 1, 1, 1}}});
  const ExchangeSchedule last = ScheduleOf(flat, uneven, 3);
  EXPECT_EQ(PeersOf(last.sends()), (Peers{{0, line / 4 - 3}, {1, 1}, {2, 1}, {3, 1}}));
  EXPECT_EQ(last.sends()[2].regions, (std::vector<Region>{{{line / 4 - 2}, {1}}}));
  EXPECT_EQ(ScheduleOf(flat, uneven, 0).recvs()[3].regions, (std::vector<Region>{{{line / 4 * 3}, {line / 4 - 3}}}));
}

TEST(ExchangeScheduleTest, RefusesPairsThatAreNoMovement) {
  const Distribution x = Distribution::Of(Line("S(0)"));
  const auto code = [](const Distribution& from, const Layout& to) {
    return ExchangeSchedule::Build(from, Distribution::Of(to), 0).status().code();
  };
  EXPECT_EQ(code(x, Line("S(0)", {7})), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code(x, Line("B", {6, 1})), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code(x, Line("B").WithDType(DType::kFloat64)), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code(x, Line("P(max)")), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code(Distribution::Of(Line("P(min)").WithDType(DType::kComplex64)), Line("B").WithDType(DType::kComplex64)),
            absl::StatusCode::kInvalidArgument);
}

Layout Grid(const char* first, const char* second, std::vector<int64_t> mesh = {2, 2}) {
  return *Layout::Create({6}, DType::kFloat32, *Mesh::Create(std::move(mesh)),
                         {*Placement::Parse(first), *Placement::Parse(second)});
}

TEST(ExchangeScheduleTest, RefusesPartialAxesThatReduceDifferently) {
  const auto status = [](const Layout& from) {
    const Distribution to = Distribution::Of(Layout::Owner({6}, DType::kFloat32, 0));
    return ExchangeSchedule::Build(Distribution::Of(from), to, 0).status();
  };
  EXPECT_EQ(status(Grid("P(max)", "P(min)")).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status(Grid("P(sum)", "P(max)")).message(),
            "a movement from P(sum) and P(max) (axis 1) at once: reduce one first; all partial axes of more than one "
            "rank must have the same reduction");
  EXPECT_TRUE(status(Grid("P(max)", "P(max)")).ok());
  EXPECT_TRUE(status(Grid("P(max)", "P(sum)", {4, 1})).ok());
  EXPECT_EQ(ReduceOf(Distribution::Of(Grid("S(0)", "P(min)"))), ReduceOp::kMin);
  EXPECT_EQ(ReduceOf(Distribution::Of(Grid("P(sum)", "P(min)", {1, 4}))), ReduceOp::kMin);
  EXPECT_EQ(ReduceOf(Distribution::Of(Grid("B", "P(min)", {4, 1}))), ReduceOp::kSum);
}

// The selection of P(max) is that of P(sum), but that the partials of a cell meet where a sum keeps them apart.
TEST(ExchangeScheduleTest, FromMaximum) {
  for (const char* to : {"S(0)", "B"}) {
    for (int rank = 0; rank < 3; ++rank) {
      EXPECT_EQ(ScheduleOf(Line("P(max)"), Line(to), rank), ScheduleOf(Line("P"), Line(to), rank));
    }
  }
  EXPECT_EQ(PeersOf(ScheduleOf(Line("P(max)"), Line("P"), 0).recvs()), (Peers{{0, 6}, {1, 6}, {2, 6}}));
  EXPECT_EQ(PeersOf(ScheduleOf(Line("P(max)"), Line("P"), 1).recvs()), Peers{});
  EXPECT_EQ(PeersOf(ScheduleOf(Line("P(max)"), Line("P"), 1).sends()), (Peers{{0, 6}}));
  // One rank alone keeps its partial, whatever its name.
  const Layout alone = Grid("S(0)", "P(max)", {3, 1});
  const Layout sum = Grid("S(0)", "P", {3, 1});
  EXPECT_EQ(ScheduleOf(alone, sum, 1), ScheduleOf(sum, sum, 1));
}

}  // namespace
}  // namespace adjoin
