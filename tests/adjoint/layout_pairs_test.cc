// Redistributions between pairs of layouts, proved by ProveCases: every pair of placements of one axis, a thousand
// random pairs on different meshes, and tensors that collectives cut into segments.
#include <cstdint>
#include <utility>
#include <vector>

#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>

#include "absl/status/status.h"
#include "gtest/gtest.h"
#include "primitives/geometry/dtype.h"
#include "primitives/geometry/layout.h"
#include "primitives/geometry/mesh.h"
#include "primitives/geometry/movement_plan.h"
#include "primitives/geometry/random_cases.h"
#include "primitives/transport/transport_ranks.h"
#include "tests/adjoint/case_run.h"
#include "tests/adjoint/movement_cases.h"
#include "tests/adjoint/random_meshes.h"

namespace adjoin {
namespace {

class LayoutPairsTest : public testing::Test {
 protected:
  void SetUp() override { at::set_num_threads(1); }

  void Prove(std::vector<MovementCase> cases, int ranks) {
    for (AlgorithmChoice choice : {AlgorithmChoice::kCheapest, AlgorithmChoice::kGroups}) {
      for (MovementCase& c : cases) c.options.algorithms = choice;
      std::vector<CaseResults> results;  // the same bits on every transport
      for (TransportKind transport : kAllTransportKinds) {
        const absl::Status status = ProveCases(cases, ranks, transport, 7, &results);
        ASSERT_TRUE(status.ok()) << ToString(transport) << (choice == AlgorithmChoice::kGroups ? ", groups: " : ": ")
                                 << status;
      }
    }
  }
};

TEST_F(LayoutPairsTest, MovesBetweenEveryPairOfPlacementsOfOneAxis) {
  Draw draw = Draw::FromEnvironment();
  for (int ranks = 1; ranks <= 8; ++ranks) {
    const Mesh mesh = *Mesh::Create({ranks});
    std::vector<MovementCase> cases;
    for (DType dtype : {DType::kFloat64, DType::kComplex64, DType::kBFloat16, DType::kInt32, DType::kUInt8}) {
      for (const char* from : {"S(0)", "S(1)", "B", "P"}) {
        for (const char* to : {"S(0)", "S(1)", "B", "P"}) {
          const Layout x = *Layout::Create({5, 3}, dtype, mesh, {*Placement::Parse(from)});
          const Layout y = *Layout::Create({5, 3}, dtype, mesh, {*Placement::Parse(to)});
          cases.push_back(RedistributeCase(draw, x, y, ranks));
        }
      }
    }
    Prove(std::move(cases), ranks);
  }
}

// Layouts of a tensor of one to five dims on meshes of three to eight ranks each, with S, B and P on any axis.
TEST_F(LayoutPairsTest, MovesBetweenAThousandRandomPairsOnDifferentMeshes) {
  Draw draw = Draw::FromEnvironment();
  int pairs = 0;
  for (int ranks : {3, 4, 5, 6, 7, 8}) {
    std::vector<MovementCase> cases;
    while (cases.size() < 180) {
      const int64_t dims = draw.Between(1, 5);
      const int64_t most[] = {24, 8, 6, 5, 4};
      const std::vector<int64_t> shape = draw.Integers(dims, 1, most[dims - 1]);
      const Mesh from = RandomMeshOf(draw, ranks);
      const Mesh to = RandomMeshOf(draw, ranks);
      // An axis at least on one side; and not the same ranks in the same array.
      if (from == to || from.size() < 2 || to.size() < 2) continue;
      const uint64_t seed = draw.engine()();
      Draw own(seed);
      const DType dtype = own.OneIn(2) ? DType::kFloat64 : DType::kFloat32;
      const Layout x = RandomLayout(own, shape, from).WithDType(dtype);
      const Layout y = RandomLayout(own, shape, to).WithDType(dtype);
      cases.push_back(RedistributeCase(own, x, y, ranks));
      ++pairs;
    }
    Prove(std::move(cases), ranks);
    if (HasFatalFailure()) return;
  }
  EXPECT_GE(pairs, 1000);
}

// Large enough for several segments of every collective algorithm, and for the cheapest one to be such.
TEST_F(LayoutPairsTest, MovesSegmentedCollectives) {
  Draw draw = Draw::FromEnvironment();
  const std::vector<int64_t> shape = {101, 701};
  for (int ranks : {2, 5, 8}) {
    std::vector<int> all_ranks, but_the_second;
    for (int rank = 0; rank < ranks; ++rank) {
      all_ranks.push_back(rank);
      if (rank != 1) but_the_second.insert(but_the_second.begin(), rank);
    }
    std::vector<MovementCase> cases;
    for (DType dtype : {DType::kFloat32, DType::kFloat16}) {
      const Layout owner = Layout::Owner(shape, dtype, 1);
      const Layout all = *Layout::Replicated(shape, dtype, all_ranks);
      const Layout others = *Layout::Replicated(shape, dtype, but_the_second);
      cases.push_back(RedistributeCase(draw, owner, all, ranks));
      cases.push_back(RedistributeCase(draw, owner, others, ranks));
      cases.push_back(RedistributeCase(draw, *all.Dual(), owner, ranks));
      cases.push_back(RedistributeCase(draw, *others.Dual(), owner, ranks));
      cases.push_back(RedistributeCase(draw, *all.Dual(), all, ranks));
    }
    Prove(std::move(cases), ranks);
    if (HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace adjoin
