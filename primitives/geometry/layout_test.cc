#include "primitives/geometry/layout.h"

#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "gtest/gtest.h"
#include "primitives/geometry/box.h"
#include "primitives/geometry/dtype.h"
#include "primitives/geometry/mesh.h"
#include "primitives/geometry/random_cases.h"

namespace adjoin {
namespace {

using Kind = Placement::Kind;
using Numbers = std::vector<int64_t>;

TEST(PlacementTest, ParsesWhatItPrints) {
  for (const char* text : {"S(0)", "S(12)", "B", "P(sum)", "P(max)", "P(min)"}) {
    ASSERT_TRUE(Placement::Parse(text).ok()) << text;
    EXPECT_EQ(Placement::Parse(text)->ToString(), text);
  }
  EXPECT_EQ(*Placement::Parse("P"), Placement::Partial());
  for (const char* text : {"", "S", "S()", "S(-1)", "S(x)", "S(1", "b", "P(mean)"}) {
    EXPECT_EQ(Placement::Parse(text).status().code(), absl::StatusCode::kInvalidArgument) << text;
  }
}

TEST(LayoutTest, GivesThePartsOfADistDLPartition) {
  const Layout x = *Layout::Partition({64, 1, 28, 28}, DType::kFloat32, {1, 1, 2, 2}, {0, 1, 2, 3});
  EXPECT_EQ(x.BoxOf(1), Box({{0, 64}, {0, 1}, {0, 14}, {14, 28}}));
  EXPECT_EQ(x.ToString(), "float32 64x1x28x28 on 1x1x2x2 [0 1 2 3] S(0) S(1) S(2) S(3)");
  EXPECT_EQ(x.BoxOf(4), Box::Nothing(4));
  EXPECT_EQ(x.LocalShape(4), (Numbers{0, 0, 0, 0}));
  EXPECT_EQ(*x.Dual(), x);
  EXPECT_EQ(x.Parts(2), 2);
  EXPECT_EQ(x.AxesOf(3), std::vector<int>{3});
}

TEST(LayoutTest, BalancedSizes) {
  EXPECT_EQ(BalancedSizes(11, 3), (Numbers{4, 4, 3}));
  EXPECT_EQ(BalancedSizes(2, 4), (Numbers{1, 1, 0, 0}));
  EXPECT_EQ(BalancedSizes(0, 2), (Numbers{0, 0}));
}

// 10 over 2, then 5 over 4: 2,1,1,1,2,1,1,1. One flat cut over 8 would be 2,2,1,1,1,1,1,1.
TEST(LayoutTest, BalancesASplitBySeveralAxesOverTheOuterOneFirst) {
  const Mesh mesh = *Mesh::Create({2, 4});
  const Layout x = *Layout::Create({10}, DType::kFloat32, mesh, {Placement::Split(0), Placement::Split(0)});
  EXPECT_EQ(x.Boundaries(0), (Numbers{0, 2, 3, 4, 5, 7, 8, 9, 10}));
  EXPECT_EQ(x.BoxOf(4), Box({{5, 7}}));
  EXPECT_EQ(x.PartOf(0, {1, 2}), 6);
}

TEST(LayoutTest, ExplicitCuts) {
  const Mesh mesh = *Mesh::Create({3});
  const Layout owner = *Layout::Create({5, 4}, DType::kFloat32, mesh, {Placement::Split(0)}, {{0, {5, 0, 0}}});
  EXPECT_EQ(owner.LocalShape(0), (Numbers{5, 4}));
  EXPECT_EQ(owner.LocalShape(2), (Numbers{0, 4}));
  EXPECT_EQ(owner.ToString(), "float32 5x4 on 3 [0 1 2] S(0) cut 0:5,0,0");
  EXPECT_EQ(owner.WithShape({5, 9})->Boundaries(0), (Numbers{0, 5, 5, 5}));
  EXPECT_EQ(owner.WithShape({6, 4})->Boundaries(0), (Numbers{0, 2, 4, 6}));
  EXPECT_FALSE(owner.WithShape({6}).ok());
}

TEST(LayoutTest, OwnerReplicatedAndDual) {
  const Layout owner = Layout::Owner({3, 2}, DType::kFloat64, 5);
  EXPECT_EQ(owner.BoxOf(5), Box::Whole({3, 2}));
  EXPECT_FALSE(owner.HasKind(Kind::kBroadcast));
  const Layout copies = *Layout::Replicated({3}, DType::kFloat64, {4, 2});
  EXPECT_TRUE(copies.HasKind(Kind::kBroadcast));
  const Layout sums = *copies.Dual();
  EXPECT_EQ(sums.placements()[0], Placement::Partial());
  EXPECT_EQ(*sums.Dual(), copies);
  EXPECT_NE(sums, copies);
  EXPECT_EQ(copies.WithDType(DType::kInt32).dtype(), DType::kInt32);
  const Layout max = *Layout::Create({3}, DType::kFloat32, *Mesh::Create({2}), {Placement::Partial(ReduceOp::kMax)});
  EXPECT_EQ(max.Dual().status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(LayoutTest, Scalars) {
  const Layout loss = *Layout::Create({}, DType::kFloat32, *Mesh::Create({2}), {Placement::Partial()});
  EXPECT_EQ(loss.BoxOf(1).Volume(), 1);
  EXPECT_EQ(loss.ToString(), "float32 scalar on 2 [0 1] P(sum)");
}

TEST(LayoutTest, RefusesBadArguments) {
  const Mesh mesh = *Mesh::Create({2});
  const Placement split = Placement::Split(0);
  const absl::StatusOr<Layout> bad[] = {
      Layout::Create({-1}, DType::kFloat32, mesh, {split}),
      Layout::Create({4}, DType::kFloat32, mesh, {}),
      Layout::Create({4}, DType::kFloat32, mesh, {Placement::Split(1)}),
      Layout::Create({}, DType::kFloat32, mesh, {split}),
      Layout::Create({4}, DType::kFloat32, mesh, {Placement::Broadcast()}, {{0, {4}}}),
      Layout::Create({4}, DType::kFloat32, mesh, {split}, {{1, {2, 2}}}),
      Layout::Create({4}, DType::kFloat32, mesh, {split}, {{0, {4}}}),
      Layout::Create({4}, DType::kFloat32, mesh, {split}, {{0, {2, 1}}}),
      Layout::Create({4}, DType::kFloat32, mesh, {split}, {{0, {5, -1}}}),
      Layout::Create({4}, DType::kFloat32, mesh, {split}, {{0, {INT64_MAX, INT64_MAX}}}),
      Layout::Partition({4, 4}, DType::kFloat32, {2}, {0, 1}),
      Layout::Partition({4}, DType::kFloat32, {2}, {0}),
      Layout::Replicated({4}, DType::kFloat32, {}),
      Layout::Replicated({4}, DType::kFloat32, {1, 1}),
  };
  for (const auto& layout : bad) {
    EXPECT_EQ(layout.status().code(), absl::StatusCode::kInvalidArgument) << layout.status();
  }
}

// The boxes of random layouts: every index is held once for every copy and partial, and boundaries match the boxes.
TEST(LayoutPropertyTest, CutsTileTheTensor) {
  Draw draw = Draw::FromEnvironment();
  for (int i = 0; i < 10000 && !HasFailure(); ++i) {
    const Mesh mesh = RandomMesh(draw);
    const Layout x = RandomLayout(draw, draw.Integers(draw.Between(0, 3), 0, 6), mesh);
    SCOPED_TRACE(x.ToString());
    int64_t copies = 1;
    for (int axis = 0; axis < mesh.axes(); ++axis) {
      if (x.placements()[axis].kind != Kind::kSplit) copies *= mesh.shape()[axis];
    }
    int64_t held = 0;
    for (int a : mesh.ranks()) {
      held += x.BoxOf(a).Volume();
      EXPECT_TRUE(Box::Whole(x.shape()).Contains(x.BoxOf(a)));
      for (int b : mesh.ranks()) {
        const Box both = x.BoxOf(a).Intersect(x.BoxOf(b));
        EXPECT_TRUE(both.empty() || both == x.BoxOf(a));
      }
    }
    EXPECT_EQ(held, copies * VolumeOf(x.shape()));
    EXPECT_EQ(*x.Dual()->Dual(), x);
    EXPECT_EQ(*x.WithShape(x.shape()), x);
  }
}

// Balanced cuts, part by part, by dealing indices to the outer axis and then to the inner one.
TEST(LayoutPropertyTest, BalancedCutsAgreeWithDealing) {
  Draw draw = Draw::FromEnvironment();
  for (int i = 0; i < 2000; ++i) {
    const int64_t n = draw.Between(0, 40);
    const int64_t outer = draw.Between(1, 5);
    const int64_t inner = draw.Between(1, 5);
    const Layout x = *Layout::Create({n}, DType::kFloat32, *Mesh::Create({outer, inner}),
                                     {Placement::Split(0), Placement::Split(0)});
    std::vector<int64_t> outer_sizes(outer);
    for (int64_t index = 0; index < n; ++index) ++outer_sizes[index % outer];
    std::vector<int64_t> sizes(outer * inner);
    for (int64_t o = 0; o < outer; ++o) {
      for (int64_t index = 0; index < outer_sizes[o]; ++index) ++sizes[o * inner + index % inner];
    }
    for (int rank = 0; rank < outer * inner; ++rank) ASSERT_EQ(x.BoxOf(rank).Volume(), sizes[rank]) << x.ToString();
  }
}

}  // namespace
}  // namespace adjoin
