#include "primitives/geometry/box.h"

#include <vector>

#include "gtest/gtest.h"

namespace adjoin {
namespace {

TEST(IntervalTest, IntersectAndHull) {
  const Interval a{2, 6};
  EXPECT_EQ(a.Intersect({4, 9}), (Interval{4, 6}));
  EXPECT_TRUE(a.Intersect({6, 9}).empty());
  EXPECT_EQ(a.Intersect({7, 9}).size(), 0);
  EXPECT_EQ(a.Hull({8, 9}), (Interval{2, 9}));
  EXPECT_EQ(a.Hull({100, 100}), a);
  EXPECT_EQ((Interval{5, 1}).Hull(a), a);
  EXPECT_EQ((Interval{5, 1}).size(), 0);
  EXPECT_TRUE(a.Contains(2));
  EXPECT_FALSE(a.Contains(6));
  EXPECT_EQ(a.ToString(), "[2, 6)");
}

TEST(BoxTest, VolumeShapeAndOrigin) {
  const Box box({{0, 4}, {2, 6}});
  EXPECT_EQ(box.Volume(), 16);
  EXPECT_EQ(box.Shape(), (std::vector<int64_t>{4, 4}));
  EXPECT_EQ(box.Origin(), (std::vector<int64_t>{0, 2}));
  EXPECT_EQ(box.ToString(), "[0, 4) x [2, 6)");
  EXPECT_EQ(box.Intersect(Box::Whole({3, 3})), Box({{0, 3}, {2, 3}}));
  EXPECT_EQ(Box::Nothing(3).Volume(), 0);
  EXPECT_EQ(Box().Volume(), 1);
  EXPECT_EQ(VolumeOf({}), 1);
  EXPECT_EQ(VolumeOf({1 << 20, 1 << 20}), int64_t{1} << 40);
}

TEST(BoxTest, CellsInRowMajorOrder) {
  const Box box({{3, 5}, {0, 1}, {7, 10}});
  int64_t place = 0;
  for (int64_t i = 3; i < 5; ++i) {
    for (int64_t k = 7; k < 10; ++k) EXPECT_EQ(box.CellAt(place++), (std::vector<int64_t>{i, 0, k}));
  }
  EXPECT_EQ(Box().CellAt(0), std::vector<int64_t>());
  EXPECT_EQ(RowMajorPlace({2, 0, 3}, {4, 5, 6}), 2 * 30 + 3);
  EXPECT_EQ(RowMajorPlace({}, {}), 0);
}

TEST(BoxTest, Contains) {
  const Box box({{0, 4}, {2, 6}});
  EXPECT_TRUE(box.Contains(Box({{1, 2}, {2, 6}})));
  EXPECT_FALSE(box.Contains(Box({{1, 2}, {1, 6}})));
  EXPECT_TRUE(box.Contains(Box({{9, 9}, {1, 6}})));
  EXPECT_TRUE(box.Contains(Box::Nothing(2)));
}

}  // namespace
}  // namespace adjoin
