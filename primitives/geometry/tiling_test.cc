#include "primitives/geometry/tiling.h"

#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "gtest/gtest.h"
#include "primitives/geometry/box.h"
#include "primitives/geometry/distribution.h"
#include "primitives/geometry/dtype.h"
#include "primitives/geometry/exchange_schedule.h"
#include "primitives/geometry/layout.h"
#include "primitives/geometry/mesh.h"
#include "primitives/geometry/random_cases.h"
#include "primitives/geometry/random_tilings.h"

namespace adjoin {
namespace {

using Numbers = std::vector<int64_t>;

Layout On(Numbers shape, Numbers mesh, const std::vector<std::string>& placements, Layout::Cuts cuts = {}) {
  std::vector<Placement> parsed;
  for (const std::string& placement : placements) parsed.push_back(*Placement::Parse(placement));
  return *Layout::Create(std::move(shape), DType::kFloat32, *Mesh::Create(std::move(mesh)), parsed, std::move(cuts));
}

void ExpectRefused(const absl::Status& status, const std::string& why) {
  EXPECT_TRUE(status.code() == absl::StatusCode::kInvalidArgument && absl::StrContains(status.message(), why))
      << status << "\nexpected: " << why;
}

TEST(TilingTest, GivesTheShapesOfTorch) {
  EXPECT_EQ(*ExpandedShape({4, 3, 1, 2}, {2, 4, 3, 4, 2}), (Numbers{2, 4, 3, 4, 2}));
  EXPECT_EQ(*ExpandedShape({4, 3, 1, 2}, {2, -1, -1, 4, -1}), (Numbers{2, 4, 3, 4, 2}));
  EXPECT_EQ(*ExpandedShape({1, 0}, {0, -1}), (Numbers{0, 0}));
  EXPECT_EQ(*ExpandedShape({}, {}), Numbers{});
  EXPECT_EQ(*ExpandedShape({}, {0, 3}), (Numbers{0, 3}));
  EXPECT_EQ(*RepeatedShape({4, 3}, {2, 0, 5}), (Numbers{2, 0, 15}));
  EXPECT_EQ(*RepeatedShape({}, {}), Numbers{});
  EXPECT_EQ(*RepeatedShape({0}, {7, 7}), (Numbers{7, 0}));
}

TEST(TilingTest, RefusesTheShapesThatTorchRefuses) {
  ExpectRefused(ExpandedShape({4, 3}, {3}).status(), "expand: 4x3 to sizes [3]: 1 sizes for 2 dims");
  ExpectRefused(ExpandedShape({3}, {-1, 3}).status(), "-1 keeps an extent, but dim 0 is new and needs a size");
  ExpectRefused(ExpandedShape({4, 3}, {2, 4, 6}).status(), "dim 2 has extent 3; only dims of extent 1 are expanded");
  ExpectRefused(ExpandedShape({0}, {1}).status(), "dim 0 has extent 0; only dims of extent 1");
  ExpectRefused(ExpandedShape({1}, {-2}).status(), "dim 0 has the negative size -2");
  ExpectRefused(RepeatedShape({4, 3}, {2}).status(), "repeat: 4x3 by [2]: 1 numbers for 2 dims");
  ExpectRefused(RepeatedShape({4}, {2, -1}).status(), "dim 1 has the negative number -1");
  ExpectRefused(RepeatedShape({4}, {int64_t{1} << 61}).status(), "dim 0 would have more than 2^63 - 1 cells");
}

TEST(TilingTest, KeepsEveryPlacementByDefault) {
  const Layout x = On({4, 3, 1, 2}, {2}, {"S(3)"});
  const Layout y = *Tiling::OutputLayout("expand", x, {2, 4, 3, 4, 2});
  EXPECT_EQ(y, On({2, 4, 3, 4, 2}, {2}, {"S(4)"}));
  EXPECT_EQ(y.LocalShape(1), (Numbers{2, 4, 3, 4, 1}));
  EXPECT_FALSE(Tiling::Create("expand", x, y)->moves());

  const Layout mixed = On({6, 1}, {3, 2, 2}, {"S(0)", "P", "B"}, {{0, {0, 5, 1}}});
  EXPECT_EQ(*Tiling::OutputLayout("expand", mixed, {6, 7}),
            On({6, 7}, {3, 2, 2}, {"S(0)", "P", "B"}, {{0, {0, 5, 1}}}));
  // Even cuts stay even, others grow by the factor.
  EXPECT_EQ(*Tiling::OutputLayout("repeat", On({3}, {2}, {"S(0)"}), {9}), On({9}, {2}, {"S(0)"}));
  EXPECT_EQ(*Tiling::OutputLayout("repeat", On({3}, {2}, {"S(0)"}, {{0, {0, 3}}}), {9}),
            On({9}, {2}, {"S(0)"}, {{0, {0, 9}}}));
  EXPECT_EQ(*Tiling::OutputLayout("expand", On({1}, {2}, {"S(0)"}), {5}), On({5}, {2}, {"S(0)"}));
  EXPECT_EQ(*Tiling::OutputLayout("repeat", On({0}, {2}, {"S(0)"}), {0}), On({0}, {2}, {"S(0)"}));
}

TEST(TilingTest, GivesTheCellsThatEachRankReads) {
  // Five cells, cut 3 and 2, twice over: rank 0 makes 0 1 2 3 4, rank 1 the same again.
  const Layout x = On({5}, {2}, {"S(0)"});
  const Tiling twice = *Tiling::Create("repeat", x, On({10}, {2}, {"S(0)"}));
  ASSERT_TRUE(twice.moves());
  EXPECT_EQ(twice.Needed().View(0), (LocalView{{5}, {{Box({{0, 5}}), {0}}}}));
  // Cut 4 and 6 instead: rank 0 reads four cells, rank 1 all five, from 4 on around.
  const Tiling uneven = *Tiling::Create("repeat", x, On({10}, {2}, {"S(0)"}, {{0, {4, 6}}}));
  EXPECT_EQ(uneven.Needed().View(0), (LocalView{{4}, {{Box({{0, 4}}), {0}}}}));
  EXPECT_EQ(uneven.Needed().View(1), (LocalView{{5}, {{Box({{4, 5}}), {0}}, {Box({{0, 4}}), {1}}}}));
  EXPECT_EQ(uneven.TilesOf(1), (std::vector<DimTile>{{5, 0, 6}}));
}

TEST(TilingTest, MovesNothingWhereEveryRankHoldsTheCellsItReads) {
  // The copies are along axis 0, along which x is B.
  const Layout x = On({5}, {2, 2}, {"B", "S(0)"});
  const Tiling outer = *Tiling::Create("repeat", x, On({10}, {2, 2}, {"S(0)", "S(0)"}, {{0, {3, 2, 3, 2}}}));
  EXPECT_FALSE(outer.moves());
  EXPECT_EQ(outer.TilesOf(3), (std::vector<DimTile>{{2, 0, 2}}));
  // A dim that x does not split is cut at will.
  const Tiling cut = *Tiling::Create("repeat", On({5}, {3}, {"B"}), On({10}, {3}, {"S(0)"}, {{0, {4, 0, 6}}}));
  EXPECT_FALSE(cut.moves());
  EXPECT_EQ(cut.TilesOf(2), (std::vector<DimTile>{{5, 4, 6}}));
  // One rank has the dim.
  const Layout owned = On({1, 2}, {2}, {"S(0)"}, {{0, {0, 1}}});
  EXPECT_FALSE(Tiling::Create("expand", owned, *Tiling::OutputLayout("expand", owned, {7, 2}))->moves());
  EXPECT_TRUE(Tiling::Create("expand", owned, On({7, 2}, {2}, {"S(0)"}))->moves());
  EXPECT_FALSE(Tiling::Create("repeat", On({5}, {2}, {"S(0)"}), On({0, 5}, {2}, {"S(1)"}))->moves());
}

TEST(TilingTest, RefusesOtherLayoutsAndNamesTheLegalOnes) {
  const auto create = [](const Layout& x, const Layout& y) { return Tiling::Create("expand", x, y).status(); };
  const Layout x = On({4, 1}, {2, 2}, {"S(0)", "B"});
  EXPECT_TRUE(create(x, On({3, 4, 6}, {2, 2}, {"S(1)", "S(2)"})).ok());
  EXPECT_TRUE(create(x, On({3, 4, 6}, {2, 2}, {"S(1)", "S(0)"})).ok());
  ExpectRefused(create(x, On({3, 4, 6}, {2, 2}, {"B", "B"})), "axis 0 goes from S(0) to B, legal is S(1)");
  ExpectRefused(create(x, On({3, 4, 6}, {2, 2}, {"S(1)", "S(1)"})),
                "axis 1 goes from B to S(1), legal is B, S(0), S(2)");
  ExpectRefused(create(x, On({3, 4, 6}, {2, 2}, {"S(1)", "P"})),
                "axis 1 goes from B to P(sum), legal is B, S(0), S(2)");
  ExpectRefused(create(x, On({3, 4, 6}, {2, 2}, {"S(1)", "B"}, {{1, {3, 1}}})),
                "dim 1 keeps its size and must keep its cuts 2,2, not 3,1");
  ExpectRefused(create(On({4, 1}, {2}, {"S(1)"}), On({4, 6}, {2}, {"S(0)"})), "legal is B, P(sum), S(1)");
  ExpectRefused(create(On({4, 1}, {2}, {"P"}), On({4, 6}, {2}, {"B"})),
                "axis 0 goes from P(sum) to B, legal is P(sum)");
  ExpectRefused(create(On({4, 1}, {2}, {"P(max)"}), On({4, 6}, {2}, {"P(max)"})), "the input has P(max)");
  ExpectRefused(Tiling::OutputLayout("expand", On({4, 1}, {2}, {"P(min)"}), {4, 6}).status(), "the input has P(min)");
  ExpectRefused(create(On({4}, {2}, {"B"}), On({6}, {2}, {"B"})), "dim 0 of size 6 is no multiple of the input's 4");
  ExpectRefused(create(On({4}, {2}, {"B"}), On({}, {2}, {"B"})), "needs at least the input's dims");
  ExpectRefused(create(On({4}, {2}, {"B"}), On({8}, {2, 1}, {"B", "B"})), "mesh and dtype must be the same");
}

int64_t CellsRead(const LocalView& view) {
  int64_t cells = 0;
  for (const Piece& piece : view.pieces) cells += piece.box.Volume();
  return cells;
}

// Index by index: what a rank reads is x[j mod n], each cell once and no other, and only what it does not hold travels.
TEST(TilingTest, RandomTilings) {
  Draw draw = Draw::FromEnvironment();
  int moving = 0;
  for (int i = 0; i < 2000; ++i) {
    const auto [x, y] = RandomTiling(draw, RandomMesh(draw), draw.OneIn(2), DType::kFloat32);
    const auto tiling = Tiling::Create("repeat", x, y);
    ASSERT_TRUE(tiling.ok()) << tiling.status();
    moving += tiling->moves();
    const Distribution needed = tiling->Needed();
    int64_t lacking = 0;
    for (int rank : x.mesh().ranks()) {
      const Box made = y.BoxOf(rank);
      if (made.empty()) {
        ASSERT_EQ(tiling->moves() ? CellsRead(needed.View(rank)) : 0, 0);
        continue;
      }
      const std::vector<DimTile> tiles = tiling->TilesOf(rank);
      int64_t distinct = 1;
      int64_t held = 1;
      for (int d = 0; d < x.dims(); ++d) {
        // In this dim, the global index of each cell of the tensor that the rank reads.
        std::vector<int64_t> reads(tiles[d].extent, -1);
        for (const Piece& piece : needed.View(rank).pieces) {
          for (int64_t j = 0; j < piece.box[d].size(); ++j) reads[piece.at[d] + j] = piece.box[d].lo + j;
        }
        std::set<int64_t> used;
        for (int64_t j = 0; j < tiles[d].length; ++j) {
          const int64_t global = (made[tiling->new_dims() + d].lo + j) % x.shape()[d];
          ASSERT_EQ(reads[(tiles[d].start + j) % tiles[d].extent], global) << x.ToString() << " to " << y.ToString();
          used.insert(global);
        }
        distinct *= static_cast<int64_t>(used.size());
        int64_t own = 0;
        for (int64_t global : used) own += x.BoxOf(rank)[d].Contains(global);
        held *= own;
      }
      if (tiling->moves()) {
        ASSERT_EQ(CellsRead(needed.View(rank)), distinct) << x.ToString() << " to " << y.ToString();
      }
      lacking += distinct - held;
    }
    bool to_partial = false;
    for (int axis = 0; axis < x.mesh().axes(); ++axis) {
      to_partial |= y.placements()[axis] == Placement::Partial() && x.placements()[axis] != y.placements()[axis];
    }
    if (to_partial) continue;  // a rank reads only what it holds, and zeros
    int64_t sent = 0;
    for (int rank : x.mesh().ranks()) {
      sent += ExchangeSchedule::Build(Distribution::Of(x), needed, rank)->ElementsSent();
    }
    ASSERT_EQ(sent, lacking) << x.ToString() << " to " << y.ToString();
  }
  EXPECT_GT(moving, 100);
}

}  // namespace
}  // namespace adjoin
