#include "primitives/geometry/edge_window.h"

#include <vector>

#include "gtest/gtest.h"

namespace adjoin {
namespace {

// The index in each cell of the local tensor; -1: fill.
std::vector<int64_t> CellsOf(const Need& need) {
  std::vector<int64_t> cells(need.fetched, -1);
  for (const Segment& segment : need.segments) {
    for (int64_t i = 0; i < segment.source.size(); ++i) cells[segment.at + i] = segment.source.lo + i;
  }
  return cells;
}

std::vector<int64_t> Cells(int64_t before, int64_t after, bool inner, Interval part, int64_t n) {
  return CellsOf(EdgeWindow::Create({before, after, inner})->Needed(part, n));
}

using Indices = std::vector<int64_t>;

TEST(EdgeWindowTest, Cells) {
  EXPECT_EQ(Cells(2, 2, true, {4, 12}, 20), (Indices{4, 5, 10, 11}));
  EXPECT_EQ(Cells(2, 2, false, {4, 12}, 20), (Indices{2, 3, 12, 13}));
  EXPECT_EQ(Cells(2, 2, false, {0, 8}, 20), (Indices{-1, -1, 8, 9}));
  EXPECT_EQ(Cells(3, 3, false, {12, 18}, 20), (Indices{9, 10, 11, 18, 19, -1}));
  EXPECT_EQ(Cells(1, 1, false, {0, 20}, 20), (Indices{-1, -1}));
  EXPECT_EQ(Cells(2, 2, true, {4, 4}, 20), Indices{});
  EXPECT_EQ(Cells(2, 2, false, {4, 4}, 20), Indices{});
}

// What a part reads before itself are the last cells of the one before it.
TEST(EdgeWindowTest, CellsWhereOneSideReadsMore) {
  EXPECT_EQ(Cells(3, 1, true, {4, 12}, 20), (Indices{4, 9, 10, 11}));
  EXPECT_EQ(Cells(3, 1, false, {4, 12}, 20), (Indices{1, 2, 3, 12}));
  EXPECT_EQ(Cells(3, 1, false, {12, 20}, 20), (Indices{9, 10, 11, -1}));
  EXPECT_EQ(Cells(1, 0, true, {4, 12}, 20), (Indices{11}));
  EXPECT_EQ(Cells(1, 0, false, {4, 12}, 20), (Indices{3}));
  EXPECT_EQ(Cells(0, 2, true, {4, 12}, 20), (Indices{4, 5}));
  EXPECT_EQ(Cells(0, 2, false, {4, 12}, 20), (Indices{12, 13}));
}

TEST(EdgeWindowTest, Text) {
  EXPECT_EQ(EdgeWindow::Create({2, 2, true})->ToString(), "inner edges of 2");
  EXPECT_EQ(EdgeWindow::Create({1, 0, false})->ToString(), "outer edges of 1 before, 0 after");
}

TEST(EdgeWindowTest, RefusesWrongOptions) {
  EXPECT_FALSE(EdgeWindow::Create({0, 0, true}).ok());
  EXPECT_FALSE(EdgeWindow::Create({-1, 1, false}).ok());
  EXPECT_FALSE(EdgeWindow::Create({1, -1, false}).ok());
  EXPECT_FALSE(EdgeWindow::Create({1, (int64_t{1} << 31) + 1, false}).ok());
}

}  // namespace
}  // namespace adjoin
