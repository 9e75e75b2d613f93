#include "primitives/geometry/movement_plan.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "primitives/geometry/distribution.h"
#include "primitives/geometry/dtype.h"
#include "primitives/geometry/layout.h"
#include "primitives/geometry/mesh.h"

namespace adjoin {
namespace {

using Kind = CollectiveGroup::Kind;

// The tensors below are too small for groups to pay.
MovementPlan PlanOf(const Layout& from, const Layout& to, int rank, AlgorithmChoice choice = AlgorithmChoice::kGroups) {
  return *MovementPlan::Build(Distribution::Of(from), Distribution::Of(to), rank, choice);
}

TEST(MovementPlanTest, BroadcastFromAnOwner) {
  const Layout owner = Layout::Owner({10, 15}, DType::kFloat32, 0);
  const Layout copies = *Layout::Replicated({10, 15}, DType::kFloat32, {0, 1, 2, 3});
  const MovementPlan root = PlanOf(owner, copies, 0);
  ASSERT_EQ(root.groups().size(), 1u);
  EXPECT_EQ(root.groups()[0], (CollectiveGroup{Kind::kBroadcast, {0, 1, 2, 3}, 150, true}));
  EXPECT_EQ(root.Describe(),
            "broadcast of 150 elements from rank 0 to 4 ranks (binomial tree); 1200 bytes leave rank 0");
  EXPECT_EQ(root.BytesSent(), 2 * 600);
  EXPECT_EQ(PlanOf(owner, copies, 2).BytesSent(), 600);
  EXPECT_EQ(PlanOf(owner, copies, 3).BytesSent(), 0);
  EXPECT_TRUE(root.direct().sends().empty());
  EXPECT_TRUE(root.direct().recvs().empty());
  EXPECT_EQ(PlanOf(owner, copies, 9).Describe(), "nothing");

  const MovementPlan back = root.Reversed();
  ASSERT_EQ(back.groups().size(), 1u);
  EXPECT_EQ(back.groups(), PlanOf(*copies.Dual(), *owner.Dual(), 0).groups());
  EXPECT_EQ(back.Describe(), "sum-reduce of 150 elements from 4 ranks to rank 0 (binomial tree); 0 bytes leave rank 0");
}

TEST(MovementPlanTest, PlansABroadcastWhoseRootKeepsNothing) {
  const Layout owner = Layout::Owner({4}, DType::kFloat32, 5);
  const Layout copies = *Layout::Replicated({4}, DType::kFloat32, {0, 1, 2});
  for (int rank : {0, 1, 2, 5}) {
    const MovementPlan plan = PlanOf(owner, copies, rank);
    ASSERT_EQ(plan.groups().size(), 1u);
    EXPECT_EQ(plan.groups()[0], (CollectiveGroup{Kind::kBroadcast, {5, 0, 1, 2}, 4, false}));
  }
}

TEST(MovementPlanTest, AllSumReduceIsItsOwnReverse) {
  const Mesh mesh = *Mesh::Create({2, 3});
  const Layout sums = *Layout::Create({6}, DType::kFloat64, mesh, {Placement::Split(0), Placement::Partial()});
  const Layout copies = *sums.Dual();
  const MovementPlan plan = PlanOf(sums, copies, 4);
  ASSERT_EQ(plan.groups().size(), 1u);
  EXPECT_EQ(plan.groups()[0], (CollectiveGroup{Kind::kAllSumReduce, {3, 4, 5}, 3, true}));
  EXPECT_EQ(plan.Reversed().groups(), plan.groups());
  EXPECT_EQ(plan.Describe(), "all-sum-reduce of 3 elements over 3 ranks (pairwise exchange); " +
                                 std::to_string(plan.BytesSent()) + " bytes leave rank 4");
}

TEST(MovementPlanTest, PlansOtherMovementsAsAPlainList) {
  const Mesh mesh = *Mesh::Create({3});
  const Layout rows = *Layout::Create({6, 6}, DType::kFloat32, mesh, {Placement::Split(0)});
  const Layout columns = *Layout::Create({6, 6}, DType::kFloat32, mesh, {Placement::Split(1)});
  const Layout sums = *Layout::Create({6, 6}, DType::kFloat32, mesh, {Placement::Partial()});
  const MovementPlan transpose = PlanOf(rows, columns, 1);
  EXPECT_TRUE(transpose.groups().empty());
  EXPECT_EQ(transpose.BytesSent(), 8 * 4);
  EXPECT_EQ(transpose.Describe(),
            "sends 8 elements to 2 ranks; receives 8 elements from 2 ranks; keeps 4 elements; "
            "32 bytes leave rank 1");
  EXPECT_EQ(PlanOf(sums, rows, 0).Describe(),
            "sends 24 elements to 2 ranks; adds up 24 elements from 2 ranks; keeps 12 elements; 96 bytes leave rank 0");
  EXPECT_EQ(PlanOf(rows, rows, 1).Describe(), "keeps 12 elements; 0 bytes leave rank 1");
}

// Small tensors go as a plain list, large ones by the group's algorithm: on every rank alike.
TEST(MovementPlanTest, TakesTheCheapestAlgorithm) {
  for (const int64_t elements : {100, 100000}) {
    const Layout owner = Layout::Owner({elements}, DType::kFloat32, 0);
    const Layout copies = *Layout::Replicated({elements}, DType::kFloat32, {0, 1, 2, 3});
    for (int rank = 0; rank < 4; ++rank) {
      const std::size_t groups = elements == 100 ? 0 : 1;
      EXPECT_EQ(PlanOf(owner, copies, rank, AlgorithmChoice::kCheapest).groups().size(), groups);
      EXPECT_EQ(PlanOf(*copies.Dual(), copies, rank, AlgorithmChoice::kCheapest).groups().size(), groups);
    }
  }
  const Layout two = *Layout::Replicated({1000000}, DType::kFloat32, {0, 1});
  EXPECT_EQ(PlanOf(*two.Dual(), two, 1, AlgorithmChoice::kCheapest).Describe(),
            "all-sum-reduce of 1000000 elements over 2 ranks (pairwise exchange); 4000000 bytes leave rank 1");
}

TEST(MovementPlanTest, EmptyTensorsHaveNoGroups) {
  const Layout owner = Layout::Owner({0, 3}, DType::kFloat32, 0);
  const Layout copies = *Layout::Replicated({0, 3}, DType::kFloat32, {0, 1, 2, 3});
  EXPECT_TRUE(PlanOf(owner, copies, 0).groups().empty());
  EXPECT_EQ(PlanOf(owner, copies, 0).Describe(), "nothing");
}

// Each part's owner broadcasts to a column of ranks that the other owner is in: one group takes its source, another
// gives its destination.
TEST(MovementPlanTest, PutsARankIntoTwoGroups) {
  const Layout from = *Layout::Partition({8}, DType::kFloat32, {2}, {0, 1});
  const Mesh mesh = *Mesh::Create({3, 2}, {2, 3, 4, 0, 1, 5});
  const Layout to = *Layout::Create({8}, DType::kFloat32, mesh, {Placement::Broadcast(), Placement::Split(0)});
  const MovementPlan plan = PlanOf(from, to, 0);
  ASSERT_EQ(plan.groups().size(), 2u);
  EXPECT_EQ(plan.groups()[0], (CollectiveGroup{Kind::kBroadcast, {0, 2, 4, 1}, 4, false}));
  EXPECT_EQ(plan.groups()[1], (CollectiveGroup{Kind::kBroadcast, {1, 3, 0, 5}, 4, false}));
  EXPECT_EQ(PlanOf(from, to, 1).groups(), plan.groups());
}

}  // namespace
}  // namespace adjoin
