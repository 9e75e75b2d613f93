// Movements between random layouts, against the definition: a selection that names one pair of cells for every (global
// index, destination replica, source partial), its transpose, and plans that do the same by collectives.
#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "primitives/geometry/box.h"
#include "primitives/geometry/distribution.h"
#include "primitives/geometry/dtype.h"
#include "primitives/geometry/exchange_schedule.h"
#include "primitives/geometry/layout.h"
#include "primitives/geometry/mesh.h"
#include "primitives/geometry/movement_plan.h"
#include "primitives/geometry/random_cases.h"
#include "primitives/geometry/simulated_ranks.h"

namespace adjoin {
namespace {

using Kind = Placement::Kind;
using Integers = Tensors<int64_t>;

constexpr int kRanks = 9;
constexpr int kCases = 10000;

struct Case {
  Layout from;
  Layout to;
  std::vector<ExchangeSchedule> schedules;
  std::vector<ExchangeSchedule> reversed;
  std::vector<MovementPlan> plans;
  std::vector<MovementPlan> reversed_plans;
  std::string ToString() const { return from.ToString() + "\n -> " + to.ToString(); }
};

Case RandomCase(Draw& draw) {
  std::vector<int64_t> shape = draw.Integers(draw.Between(0, 3), 1, 5);
  if (!shape.empty() && draw.OneIn(20)) shape[0] = 0;
  const Mesh mesh = RandomMesh(draw);
  Case c{RandomLayout(draw, shape, mesh), RandomLayout(draw, shape, RelatedMesh(draw, mesh)), {}, {}, {}, {}};
  const Distribution from = Distribution::Of(c.from);
  const Distribution to = Distribution::Of(c.to);
  for (int rank = 0; rank < kRanks; ++rank) {
    c.schedules.push_back(ExchangeSchedule::Build(from, to, rank).value());
    c.reversed.push_back(c.schedules.back().Reversed());
    c.plans.push_back(MovementPlan::Build(from, to, rank, AlgorithmChoice::kGroups).value());
    c.reversed_plans.push_back(c.plans.back().Reversed());
  }
  return c;
}

// The coordinates of `rank` on the axes of one kind.
std::vector<int64_t> CoordsOn(const Layout& layout, int rank, Kind kind) {
  std::vector<int64_t> coords;
  const std::vector<int64_t> all = *layout.mesh().CoordsOf(rank);
  for (size_t axis = 0; axis < all.size(); ++axis) {
    if (layout.placements()[axis].kind == kind) coords.push_back(all[axis]);
  }
  return coords;
}

int64_t SizeOn(const Layout& layout, Kind kind) {
  int64_t size = 1;
  for (int axis = 0; axis < layout.mesh().axes(); ++axis) {
    if (layout.placements()[axis].kind == kind) size *= layout.mesh().shape()[axis];
  }
  return size;
}

// Per rank, the global flat index of every local cell.
Integers LabelsOf(const Layout& layout) {
  Integers labels;
  for (int rank = 0; rank < kRanks; ++rank) {
    labels[rank] = {};
    if (!layout.mesh().Has(rank)) continue;
    const Box box = layout.BoxOf(rank);
    ForEachCell(layout.shape(), Region{box.Origin(), box.Shape()},
                [&, rank](int64_t flat, const std::vector<int64_t>&) { labels[rank].push_back(flat); });
  }
  return labels;
}

// A state in which copies agree and partials sum to `global`.
Integers ValidState(Draw& draw, const Layout& layout, const std::vector<int64_t>& global) {
  const Integers labels = LabelsOf(layout);
  Integers state;
  // The partials of every index, the same for all its copies.
  std::map<int64_t, std::vector<int64_t>> parts;
  for (const auto& entry : labels) {
    const int rank = entry.first;
    state[rank] = {};
    if (!layout.mesh().Has(rank)) continue;
    int64_t number = 0;
    for (int axis = 0; axis < layout.mesh().axes(); ++axis) {
      if (layout.placements()[axis].kind != Kind::kPartial) continue;
      number = number * layout.mesh().shape()[axis] + (*layout.mesh().CoordsOf(rank))[axis];
    }
    for (int64_t label : entry.second) {
      std::vector<int64_t>& numbers = parts[label];
      if (numbers.empty()) {
        numbers = draw.Integers(SizeOn(layout, Kind::kPartial), -9, 9);
        numbers[0] = global[label];
        for (size_t i = 1; i < numbers.size(); ++i) numbers[0] -= numbers[i];
      }
      state[rank].push_back(numbers[number]);
    }
  }
  return state;
}

// Every set of copies of every index sums to `global` over its partials.
void ExpectValidState(const Layout& layout, const std::vector<int64_t>& global, const Integers& state) {
  const Integers labels = LabelsOf(layout);
  std::map<std::pair<int64_t, std::vector<int64_t>>, int64_t> sums;
  for (int rank : layout.mesh().ranks()) {
    for (size_t i = 0; i < labels.at(rank).size(); ++i) {
      sums[{labels.at(rank)[i], CoordsOn(layout, rank, Kind::kBroadcast)}] += state.at(rank)[i];
    }
  }
  EXPECT_EQ(static_cast<int64_t>(sums.size()), VolumeOf(layout.shape()) * SizeOn(layout, Kind::kBroadcast));
  for (const auto& sum : sums) EXPECT_EQ(sum.second, global[sum.first.first]);
}

Integers RandomState(Draw& draw, const Layout& layout) {
  Integers state = LabelsOf(layout);
  for (auto& entry : state) entry.second = draw.Integers(entry.second.size(), -9, 9);
  return state;
}

int64_t InnerProduct(const Integers& x, const Integers& y) {
  int64_t sum = 0;
  for (const auto& entry : x) {
    for (size_t i = 0; i < entry.second.size(); ++i) sum += entry.second[i] * y.at(entry.first)[i];
  }
  return sum;
}

// Local tensors of ranks outside the mesh do not count: a scalar's would have one cell.
Integers InMesh(const Layout& layout, Integers state) {
  for (auto& entry : state) {
    if (!layout.mesh().Has(entry.first)) entry.second.clear();
  }
  return state;
}

// What one rank sends is what the other receives, index by index; every triple is named once.
void CheckSelection(const Case& c) {
  const Integers source = LabelsOf(c.from);
  const Integers dest = LabelsOf(c.to);
  std::map<std::tuple<int64_t, std::vector<int64_t>, std::vector<int64_t>>, int> named;
  size_t sends = 0;
  size_t recvs = 0;
  for (const ExchangeSchedule& from : c.schedules) {
    recvs += from.recvs().size();
    EXPECT_TRUE(std::is_sorted(from.recvs().begin(), from.recvs().end(), [&](const Transfer& a, const Transfer& b) {
      return *c.from.mesh().IndexOf(a.peer) < *c.from.mesh().IndexOf(b.peer);
    }));
    for (const Transfer& send : from.sends()) {
      ++sends;
      const ExchangeSchedule& to = c.schedules[send.peer];
      const Transfer* recv = FindPeer(to.recvs(), from.rank());
      ASSERT_NE(recv, nullptr);
      const std::vector<int64_t> out = CellsOf(from.from_shape(), send);
      const std::vector<int64_t> in = CellsOf(to.to_shape(), *recv);
      ASSERT_EQ(out.size(), in.size());
      ASSERT_EQ(static_cast<int64_t>(out.size()), send.elements);
      ASSERT_EQ(recv->elements, send.elements);
      for (size_t i = 0; i < out.size(); ++i) {
        const int64_t label = source.at(from.rank())[out[i]];
        ASSERT_EQ(label, dest.at(send.peer)[in[i]]);
        ++named[{label, CoordsOn(c.to, send.peer, Kind::kBroadcast), CoordsOn(c.from, from.rank(), Kind::kPartial)}];
      }
    }
  }
  EXPECT_EQ(sends, recvs);
  for (const auto& entry : named) EXPECT_EQ(entry.second, 1);
  EXPECT_EQ(static_cast<int64_t>(named.size()),
            VolumeOf(c.from.shape()) * SizeOn(c.to, Kind::kBroadcast) * SizeOn(c.from, Kind::kPartial));
}

void CheckAccumulates(const Case& c) {
  for (const ExchangeSchedule& schedule : c.schedules) {
    std::map<int64_t, int> hits;
    bool twice = false;
    for (const Transfer& recv : schedule.recvs()) {
      for (int64_t cell : CellsOf(schedule.to_shape(), recv)) twice = ++hits[cell] > 1 || twice;
    }
    EXPECT_EQ(schedule.accumulates(), twice);
  }
}

TEST(GeometryPropertyTest, SchedulesFollowTheSelectionAndKeepTheTensor) {
  Draw draw = Draw::FromEnvironment();
  for (int i = 0; i < kCases && !HasFailure(); ++i) {
    const Case c = RandomCase(draw);
    SCOPED_TRACE(c.ToString());
    CheckSelection(c);
    CheckAccumulates(c);
    const std::vector<int64_t> global = draw.Integers(VolumeOf(c.from.shape()), -99, 99);
    ExpectValidState(c.to, global, Move(c.schedules, ValidState(draw, c.from, global)));
  }
}

TEST(GeometryPropertyTest, ReversedIsTheTransposeAndTheMovementOfDuals) {
  Draw draw = Draw::FromEnvironment();
  int same_mesh = 0;
  for (int i = 0; i < kCases && !HasFailure(); ++i) {
    const Case c = RandomCase(draw);
    SCOPED_TRACE(c.ToString());
    // Copies and partials drawn independently: only then would another selection show.
    const Integers x = RandomState(draw, c.from);
    const Integers y = RandomState(draw, c.to);
    EXPECT_EQ(InnerProduct(InMesh(c.to, Move(c.schedules, x)), y), InnerProduct(x, Move(c.reversed, y)));
    const Distribution dual_to = Distribution::Of(c.to).Dual().value();
    const Distribution dual_from = Distribution::Of(c.from).Dual().value();
    EXPECT_EQ(dual_to, Distribution::Of(c.to.Dual().value()));
    const bool only_split =
        SizeOn(c.from, Kind::kSplit) == c.from.mesh().size() && SizeOn(c.to, Kind::kSplit) == c.to.mesh().size();
    if (c.from.mesh() != c.to.mesh() && !only_split) continue;
    ++same_mesh;
    for (const ExchangeSchedule& schedule : c.schedules) {
      EXPECT_EQ(schedule.Reversed(), ExchangeSchedule::Build(dual_to, dual_from, schedule.rank()).value());
      EXPECT_EQ(schedule.Reversed().Reversed(), schedule);
    }
  }
  EXPECT_GT(same_mesh, kCases / 4);
}

void ExpectPlansMoveTheSame(const std::vector<MovementPlan>& plans, const std::vector<ExchangeSchedule>& schedules,
                            const Integers& x) {
  std::map<int, int64_t> elements_sent;
  std::string error;
  EXPECT_EQ(Move(plans, x, elements_sent, &error), Move(schedules, x));
  EXPECT_EQ(error, "");
  for (const MovementPlan& plan : plans) {
    EXPECT_EQ(plan.BytesSent(), elements_sent[plan.rank()] * SizeOf(plan.dtype()));
    EXPECT_LE(plan.groups().size(), 2u);
  }
}

TEST(GeometryPropertyTest, PlansMoveWhatSchedulesMove) {
  Draw draw = Draw::FromEnvironment();
  int groups = 0;
  for (int i = 0; i < kCases && !HasFailure(); ++i) {
    const Case c = RandomCase(draw);
    SCOPED_TRACE(c.ToString());
    ExpectPlansMoveTheSame(c.plans, c.schedules, RandomState(draw, c.from));
    ExpectPlansMoveTheSame(c.reversed_plans, c.reversed, RandomState(draw, c.to));
    for (const MovementPlan& plan : c.plans) groups += static_cast<int>(plan.groups().size());
  }
  EXPECT_GT(groups, kCases / 10);
}

}  // namespace
}  // namespace adjoin
