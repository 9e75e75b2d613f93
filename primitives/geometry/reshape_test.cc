#include "primitives/geometry/reshape.h"

#include <algorithm>
#include <cstdio>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "gtest/gtest.h"
#include "primitives/geometry/box.h"
#include "primitives/geometry/dtype.h"
#include "primitives/geometry/layout.h"
#include "primitives/geometry/mesh.h"
#include "primitives/geometry/random_cases.h"

namespace adjoin {
namespace {

using Numbers = std::vector<int64_t>;

Layout Cut(const Numbers& shape, const Numbers& partition, Layout::Cuts cuts = {}) {
  std::vector<int> ranks(VolumeOf(partition));
  for (size_t i = 0; i < ranks.size(); ++i) ranks[i] = static_cast<int>(i);
  return Layout::Partition(shape, DType::kFloat32, partition, ranks, std::move(cuts)).value();
}

TEST(ReshapeTest, EqualsResultsWorkedByHand) {
  const Layout x = Cut({2, 12, 5}, {1, 2, 1});
  EXPECT_EQ(*Reshaped(x, {2, 60}), Cut({2, 60}, {1, 2}));
  EXPECT_EQ(*Reshaped(x, {2, 4, 3, 5}), Cut({2, 4, 3, 5}, {1, 2, 1, 1}));
  EXPECT_EQ(*Reshaped(x, {2, 12, 5}), x);
  EXPECT_EQ(*Reshaped(x, {2, 1, 12, 5, 1})->Dual(), *Reshaped(x, {2, 1, 12, 5, 1}));
  // 30 of 60 are two and a half rows of 12.
  EXPECT_EQ(Reshaped(x, {2, 5, 12}).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(std::string(Reshaped(x, {2, 5, 12}).status().message()).find("dims 1 to 2 become dims 1 to 2"),
            std::string::npos);
  EXPECT_EQ(*Reshapeable(x, {2, 5, 12}), Cut({2, 12, 5}, {1, 2, 1}, {{1, {12, 0}}}));
  EXPECT_NE(std::string(Reshaped(x, {2, 61}).status().message()).find("120 elements"), std::string::npos);
}

// Worked by hand: what cannot be reshaped as it lies is cut in the first dim of its group, and everything else stays.
TEST(ReshapeTest, ReshapeableKeepsWhatItCan) {
  // Rows for columns.
  EXPECT_EQ(*Reshapeable(Cut({2, 16, 4, 4}, {1, 1, 2, 2}), {2, 256}), Cut({2, 16, 4, 4}, {1, 4, 1, 1}));
  // Axes with copies, of the batch and of dims that stay are as they were.
  const Mesh mesh = *Mesh::Create(
      {2, 3, 2, 2}, {7, 6, 5, 4, 3, 2, 1, 0, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23});
  const auto layout = [&](std::vector<Placement> placements, Layout::Cuts cuts) {
    return *Layout::Create({6, 5, 8, 4}, DType::kFloat32, mesh, std::move(placements), std::move(cuts));
  };
  const Layout x = layout({Placement::Broadcast(), Placement::Split(0), Placement::Split(3), Placement::Split(1)},
                          {{0, {1, 3, 2}}, {1, {4, 1}}});
  const Layout moved = *Reshapeable(x, {6, 5, 32});
  EXPECT_EQ(moved.mesh().shape(), (Numbers{2, 3, 2, 1, 2}));
  for (int rank : mesh.ranks()) {
    EXPECT_EQ(moved.BoxOf(rank)[0], x.BoxOf(rank)[0]) << rank;
    EXPECT_EQ(moved.BoxOf(rank)[1], x.BoxOf(rank)[1]) << rank;
    const int64_t half = x.BoxOf(rank)[3].lo == 0 ? 0 : 4;
    EXPECT_EQ(moved.BoxOf(rank)[2], (Interval{half, half + 4})) << rank;
  }
  // Three rows are too few for four ranks: two and one, and two ranks each cut the channels.
  const Layout spread = *Reshapeable(Cut({2, 6, 3, 4}, {1, 1, 1, 4}), {2, 6, 12});
  EXPECT_EQ(spread.BoxOf(0), Box({{0, 2}, {0, 3}, {0, 2}, {0, 4}}));
  EXPECT_EQ(spread.BoxOf(1), Box({{0, 2}, {3, 6}, {0, 2}, {0, 4}}));
  EXPECT_EQ(spread.BoxOf(3), Box({{0, 2}, {3, 6}, {2, 3}, {0, 4}}));
  // The batch takes none of them: one has no cells.
  EXPECT_EQ(*Reshapeable(Cut({8, 3, 4}, {1, 1, 4}), {8, 12}), Cut({8, 3, 4}, {1, 4, 1}));
}

// Six channels over four ranks: two heads of three channels.
TEST(ReshapeTest, SplitsOneAxisIntoTwo) {
  const Layout x = Cut({6}, {6}), y = *Reshaped(x, {2, 3});
  EXPECT_EQ(y, Cut({2, 3}, {2, 3}));
  EXPECT_EQ(*Reshaped(y, {6}), x);
  // Blocks that are no grid: two of the first row's cells, one, and the second row.
  EXPECT_FALSE(Reshaped(Cut({6}, {3}, {{0, {2, 1, 3}}}), {2, 3}).ok());
  EXPECT_TRUE(Reshaped(Cut({6}, {3}, {{0, {3, 0, 3}}}), {2, 3}).ok());
}

TEST(ReshapeTest, HandlesTensorsWithoutCells) {
  const Layout x = Cut({4, 0, 3}, {2, 1, 3});
  for (const Numbers& shape : {Numbers{4, 0}, Numbers{4, 7, 0}, Numbers{0}, Numbers{4, 0, 3, 1}}) {
    const auto y = Reshaped(x, shape);
    ASSERT_TRUE(y.ok()) << y.status();
    EXPECT_EQ(y->shape(), shape);
    if (shape[0] == 4) {
      EXPECT_EQ(y->Boundaries(0), x.Boundaries(0));
    }
    EXPECT_TRUE(Reshapeable(x, shape).ok());
  }
  EXPECT_EQ(*Reshaped(Cut({0, 4, 6}, {2, 2, 1}), {0, 24}), Cut({0, 24}, {2, 2}));
}

// The row-major numbers of a box's cells, by a walk over all cells.
std::vector<int64_t> CellsOf(const Box& box, const Numbers& shape) {
  std::vector<int64_t> cells;
  for (int64_t cell = 0; cell < VolumeOf(shape); ++cell) {
    int64_t rest = cell;
    bool inside = true;
    for (int dim = box.dims() - 1; dim >= 0; --dim) {
      inside = inside && box[dim].Contains(rest % shape[dim]);
      rest /= shape[dim];
    }
    if (inside) cells.push_back(cell);
  }
  return cells;
}

// The only box that may have these cells: the hull of their indices.
Box HullOf(const std::vector<int64_t>& cells, const Numbers& shape) {
  std::vector<Interval> hull(shape.size());
  for (int64_t cell : cells) {
    for (size_t dim = shape.size(); dim-- > 0;) {
      hull[dim] = hull[dim].Hull({cell % shape[dim], cell % shape[dim] + 1});
      cell /= shape[dim];
    }
  }
  return Box(std::move(hull));
}

// True where every rank's cells are a box of `shape` and these are a grid.
bool Possible(const Layout& x, const Numbers& shape) {
  std::set<std::vector<int64_t>> parts;
  for (int rank : x.mesh().ranks()) parts.insert(CellsOf(x.BoxOf(rank), x.shape()));
  parts.erase(std::vector<int64_t>());
  std::vector<std::set<std::pair<int64_t, int64_t>>> intervals(shape.size());
  for (const auto& cells : parts) {
    const Box hull = HullOf(cells, shape);
    if (CellsOf(hull, shape) != cells) return false;
    for (int dim = 0; dim < hull.dims(); ++dim) intervals[dim].insert({hull[dim].lo, hull[dim].hi});
  }
  size_t grid = 1;
  for (size_t dim = 0; dim < shape.size(); ++dim) {
    int64_t end = 0;
    for (const auto& [lo, hi] : intervals[dim]) {
      if (lo != end) return false;
      end = hi;
    }
    grid *= intervals[dim].size();
  }
  return grid == parts.size();
}

// The prime factors of the extents in any groups, with ones between.
Numbers RandomShape(Draw& draw, const Numbers& factors) {
  Numbers shape;
  for (int64_t factor : factors) {
    if (draw.OneIn(6)) shape.push_back(1);
    if (shape.empty() || draw.OneIn(2)) {
      shape.push_back(factor);
    } else {
      shape.back() *= factor;
    }
  }
  if (draw.OneIn(6)) shape.push_back(1);
  return shape;
}

std::vector<int> SortedRanks(const Layout& layout) {
  std::vector<int> ranks = layout.mesh().ranks();
  std::sort(ranks.begin(), ranks.end());
  return ranks;
}

// How many ranks hold each cell, row-major.
std::vector<int> CopiesOf(const Layout& layout) {
  std::vector<int> copies(VolumeOf(layout.shape()));
  for (int rank : layout.mesh().ranks()) {
    for (int64_t cell : CellsOf(layout.BoxOf(rank), layout.shape())) ++copies[cell];
  }
  return copies;
}

TEST(ReshapeTest, SucceedsExactlyWherePartsAreBlocksInAGrid) {
  Draw draw = Draw::FromEnvironment();
  int possible = 0, moved = 0, refused = 0;
  for (int i = 0; i < 20000; ++i) {
    Numbers factors = draw.Integers(draw.Between(1, 5), 2, 3);
    const Numbers x_shape = RandomShape(draw, factors);
    if (draw.OneIn(2)) std::shuffle(factors.begin(), factors.end(), draw.engine());
    const Numbers y_shape = RandomShape(draw, factors);
    const Layout x = RandomLayout(draw, x_shape, RandomMesh(draw));
    const auto y = Reshaped(x, y_shape);
    ASSERT_EQ(y.ok(), Possible(x, y_shape)) << x.ToString() << "\n" << y.status();
    if (!y.ok()) {
      ++refused;
      const auto advice = Reshapeable(x, y_shape);
      ASSERT_TRUE(advice.ok() && Reshaped(*advice, y_shape).ok()) << x.ToString() << advice.status();
      ASSERT_EQ(SortedRanks(*advice), SortedRanks(x)) << x.ToString() << "\n" << advice->ToString();
      // As many ranks hold each cell, and the batch is cut as it was where it stays.
      ASSERT_EQ(CopiesOf(*advice), CopiesOf(x)) << x.ToString() << "\n" << advice->ToString();
      for (int rank : x.mesh().ranks()) {
        if (x_shape[0] != y_shape[0]) break;
        ASSERT_EQ(advice->Boundaries(0), x.Boundaries(0)) << x.ToString() << "\n" << advice->ToString();
        ASSERT_TRUE(advice->BoxOf(rank)[0] == x.BoxOf(rank)[0] || advice->BoxOf(rank).empty()) << rank;
      }
      continue;
    }
    ++possible;
    moved += x.mesh() != y->mesh();
    ASSERT_EQ(y->shape(), y_shape);
    ASSERT_EQ(x.HasKind(Placement::Kind::kPartial), y->HasKind(Placement::Kind::kPartial));
    for (int rank = 0; rank < 9; ++rank) {
      ASSERT_EQ(CellsOf(y->BoxOf(rank), y_shape), CellsOf(x.BoxOf(rank), x_shape)) << "rank " << rank << "\n"
                                                                                   << x.ToString() << "\n"
                                                                                   << y->ToString();
    }
  }
  std::printf("%d possible, %d of them on another mesh, %d refused\n", possible, moved, refused);
  EXPECT_GT(moved, 500);
  EXPECT_GT(refused, 500);
}

}  // namespace
}  // namespace adjoin
