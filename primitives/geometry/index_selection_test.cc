#include "primitives/geometry/index_selection.h"

#include <random>
#include <vector>

#include "gtest/gtest.h"

namespace adjoin {
namespace {

using Indices = std::vector<int64_t>;

// What the local tensor of `outputs` is made of, as a rank makes it; -1: fill.
Indices CellsOf(const IndexSelection& selection, Interval outputs, int64_t n, int64_t* fetched_cells = nullptr) {
  const Need need = selection.Needed(outputs, n);
  Indices fetched(need.fetched, -1);
  for (const Segment& segment : need.segments) {
    for (int64_t i = 0; i < segment.source.size(); ++i) {
      EXPECT_EQ(fetched[segment.at + i], -1);
      fetched[segment.at + i] = segment.source.lo + i;
    }
  }
  if (fetched_cells != nullptr) *fetched_cells = need.fetched;
  EXPECT_EQ(need.extent, outputs.size());
  const Indices map = selection.IndexMap(outputs, n);
  if (map.empty()) return fetched;
  Indices cells;
  for (int64_t at : map) cells.push_back(fetched.at(at));
  return cells;
}

TEST(IndexSelectionTest, GivesTheNamedSelections) {
  const IndexSelection roll = *IndexSelection::Cyclic({8, -3, 1, 8});
  EXPECT_EQ(CellsOf(roll, {0, 8}, 8), (Indices{5, 6, 7, 0, 1, 2, 3, 4}));
  EXPECT_EQ(CellsOf(roll, {2, 5}, 8), (Indices{7, 0, 1}));
  EXPECT_TRUE(roll.IndexMap({2, 5}, 8).empty());
  const IndexSelection flip = *IndexSelection::Cyclic({8, 7, -1, 8});
  EXPECT_EQ(CellsOf(flip, {5, 8}, 8), (Indices{2, 1, 0}));
  const IndexSelection some = *IndexSelection::Of({3, 0, 3, 4});
  EXPECT_EQ(CellsOf(some, {0, 4}, 5), (Indices{3, 0, 3, 4}));
  EXPECT_EQ(*some.OutputSize(5), 4);
  int64_t fetched = 0;
  EXPECT_EQ(CellsOf(*IndexSelection::Cyclic({7, 0, 1, 3}), {0, 7}, 3, &fetched), (Indices{0, 1, 2, 0, 1, 2, 0}));
  EXPECT_EQ(fetched, 3);
  // Padded to 8 and rolled: the windows' part.
  EXPECT_EQ(CellsOf(*IndexSelection::Cyclic({8, 2, 1, 8}), {2, 8}, 6), (Indices{4, 5, -1, -1, 0, 1}));
}

// Against the definition, cell by cell.
TEST(IndexSelectionTest, SelectsTheCellsOfRandomParts) {
  std::mt19937_64 random(7);
  const auto between = [&random](int64_t lo, int64_t hi) {
    return std::uniform_int_distribution<int64_t>(lo, hi)(random);
  };
  for (int i = 0; i < 20000; ++i) {
    const int64_t n = between(1, 12);
    Indices expected;
    absl::StatusOr<IndexSelection> selection = IndexSelection::Of({});
    if (between(0, 2) == 0) {
      for (int64_t count = between(0, 15); count > 0; --count) expected.push_back(between(0, n - 1));
      selection = IndexSelection::Of(expected);
    } else {
      const int64_t step = between(0, 1) * 2 - 1;
      const int64_t modulus = step > 0 ? n + between(0, 5) : n;
      const int64_t start = between(-30, 30), outputs = between(0, 40);
      for (int64_t o = 0; o < outputs; ++o) {
        const int64_t cell = (((start + step * o) % modulus) + modulus) % modulus;
        expected.push_back(cell < n ? cell : -1);
      }
      selection = IndexSelection::Cyclic({outputs, start, step, modulus});
    }
    ASSERT_TRUE(selection.ok()) << selection.status();
    ASSERT_EQ(*selection->OutputSize(n), static_cast<int64_t>(expected.size()));
    const int64_t lo = between(0, expected.size()), hi = between(lo, expected.size());
    int64_t fetched = 0;
    EXPECT_EQ(CellsOf(*selection, {lo, hi}, n, &fetched), Indices(expected.begin() + lo, expected.begin() + hi))
        << selection->ToString() << " [" << lo << ", " << hi << ") of " << n;
    EXPECT_LE(fetched, hi - lo);
    const Interval reads = selection->Reads({lo, hi}, n);
    for (int64_t o = lo; o < hi; ++o) {
      EXPECT_TRUE(expected[o] < 0 || (reads.lo <= expected[o] && expected[o] < reads.hi));
    }
  }
}

// No more than 64 segments: what is nearest to each other is joined.
TEST(IndexSelectionTest, JoinsManyRunsAtTheNarrowestGaps) {
  Indices even, few;
  for (int64_t i = 0; i < 200; i += 2) even.push_back(i);
  few.assign(even.begin(), even.begin() + 64);
  int64_t fetched = 0;
  EXPECT_EQ(CellsOf(*IndexSelection::Of(even), {0, 100}, 300, &fetched), even);
  EXPECT_EQ(fetched, 100 + 99 - 63) << "36 gaps of one cell";
  EXPECT_EQ(IndexSelection::Of(even)->Needed({0, 100}, 300).segments.size(), 64u);
  // Pairs with a cell between, far from each other: 70 gaps of one are joined, and 6 of the 69 wide ones, the first.
  Indices pairs;
  for (int64_t i = 0; i < 70; ++i) pairs.insert(pairs.end(), {1000 * i, 1000 * i + 2});
  EXPECT_EQ(CellsOf(*IndexSelection::Of(pairs), {0, 140}, 70000, &fetched), pairs);
  EXPECT_EQ(fetched, 70 * 3 + 6 * 997);
  EXPECT_EQ(CellsOf(*IndexSelection::Of(few), {0, 64}, 300, &fetched), few);
  EXPECT_EQ(fetched, 64);
}

TEST(IndexSelectionTest, RefusesWrongOptions) {
  EXPECT_FALSE(IndexSelection::Of({1, -1}).ok());
  EXPECT_FALSE(IndexSelection::Cyclic({3, 0, 2, 3}).ok());
  EXPECT_FALSE(IndexSelection::Cyclic({3, 0, 1, 0}).ok());
  EXPECT_FALSE(IndexSelection::Cyclic({-1, 0, 1, 4}).ok());
  EXPECT_FALSE(IndexSelection::Of({5})->OutputSize(5).ok());
  EXPECT_FALSE(IndexSelection::Cyclic({4, 0, 1, 4})->OutputSize(5).ok());
  EXPECT_FALSE(IndexSelection::Cyclic({4, 3, -1, 4})->OutputSize(3).ok());
}

}  // namespace
}  // namespace adjoin
