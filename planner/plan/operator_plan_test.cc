// Compares a plan's bytes with those that each rank's MovementPlan sends.
#include "planner/plan/operator_plan.h"
#include "base/testing/test_seed.h"

#include <algorithm>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"

#include "layers/rules/layout_proto.h"
#include "primitives/geometry/box.h"
#include "primitives/geometry/dtype.h"
#include "primitives/geometry/layout.h"
#include "primitives/geometry/movement_plan.h"

namespace adjoin {
namespace {

constexpr int kRanks = 16;

// The same cut of a tensor on two lists of ranks, some of which are in both.
TEST(OperatorPlanTest, PartsThatChangeRanksAreCountedAsTheMovementSendsThem) {
  const uint64_t seed = TestSeed(1);
  for (uint64_t i = 0; i < 500; ++i) {
    std::mt19937_64 random(seed + i);
    const auto between = [&random](int64_t lo, int64_t hi) {
      return std::uniform_int_distribution<int64_t>(lo, hi)(random);
    };
    std::vector<int64_t> shape, parts;
    Layout::Cuts cuts;
    for (int dim = 0; dim < 3; ++dim) {
      parts.push_back(between(1, 2) * (dim == 0 ? between(1, 2) : 1));
      std::vector<int64_t> sizes;
      for (int64_t part = 0; part < parts.back(); ++part) sizes.push_back(between(0, 3));
      shape.push_back(std::accumulate(sizes.begin(), sizes.end(), int64_t{0}));
      cuts[dim] = sizes;
    }
    const auto on = [&] {
      std::vector<int> ranks(kRanks);
      std::iota(ranks.begin(), ranks.end(), 0);
      // Some movements change only few ranks.
      if (between(0, 3) > 0) std::shuffle(ranks.begin(), ranks.end(), random);
      if (between(0, 1) > 0) std::swap(ranks[0], ranks[1]);
      ranks.resize(VolumeOf(parts));
      return *Layout::Partition(shape, DType::kFloat32, parts, ranks, cuts);
    };
    const Layout from = on(), to = on();
    const auto op = MakeOperator({.name = "m", .from = from, .to = to, .differentiable = true}, kRanks);
    ASSERT_TRUE(op.ok()) << op.status();
    const auto ends = DistributionsOf(*op);
    ASSERT_TRUE(ends.ok()) << ends.status();
    bool same = true;
    for (int rank = 0; rank < kRanks; ++rank) {
      const auto plan = MovementPlan::Build(ends->from, ends->to, rank);
      ASSERT_TRUE(plan.ok()) << plan.status();
      EXPECT_EQ(op->bytes_forward(rank), plan->BytesSent()) << "ADJOIN_TEST_SEED=" << seed + i << " rank " << rank;
      EXPECT_EQ(op->bytes_adjoint(rank), plan->Reversed().BytesSent())
          << "ADJOIN_TEST_SEED=" << seed + i << " rank " << rank;
      same = same && from.LocalShape(rank) == to.LocalShape(rank) && plan->BytesSent() == 0;
    }
    EXPECT_EQ(*IsIdentity(*op), same) << "ADJOIN_TEST_SEED=" << seed + i;
    EXPECT_TRUE(op->algorithm() == "box exchange" || op->algorithm() == "local") << op->algorithm();
  }
}

}  // namespace
}  // namespace adjoin
