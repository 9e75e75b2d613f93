#include "worker/samples/reshaped_box.h"
#include "base/testing/test_seed.h"

#include <random>

#include <gtest/gtest.h>

#include "worker/samples/copy_cells.h"

namespace adjoin {
namespace {

int64_t IndexIn(const std::vector<int64_t>& shape, const std::vector<int64_t>& position) {
  int64_t index = 0;
  for (size_t dim = 0; dim < shape.size(); ++dim) index = index * shape[dim] + position[dim];
  return index;
}

// The numbers of the cells of `box`, row-major.
std::vector<int64_t> CellsOf(const std::vector<int64_t>& shape, const Box& box) {
  std::vector<int64_t> cells;
  std::vector<int64_t> position = box.Origin();
  for (int64_t left = box.Volume(); left > 0; --left) {
    cells.push_back(IndexIn(shape, position));
    for (int dim = box.dims(); dim-- > 0;) {
      if (++position[dim] < box[dim].hi) break;
      position[dim] = box[dim].lo;
    }
  }
  return cells;
}

std::vector<int64_t> RandomShape(std::mt19937& random, int64_t cells) {
  std::vector<int64_t> shape;
  while (cells > 1 || random() % 3 == 0) {
    std::vector<int64_t> divisors;
    for (int64_t d = 1; d <= cells; ++d) {
      if (cells % d == 0) divisors.push_back(d);
    }
    shape.push_back(divisors[random() % divisors.size()]);
    cells /= shape.back();
  }
  return shape;
}

// What the parts give, put together, is what the box of the array seen otherwise holds.
void Check(const std::vector<int64_t>& seen, const Box& box, const std::vector<int64_t>& own) {
  const ReshapedBox reshaped = BoxesUnder(seen, box, own);
  ASSERT_EQ(VolumeOf(reshaped.extents), box.Volume());
  std::vector<double> found(box.Volume(), -1);
  const std::vector<int64_t> strides = RowMajorStrides(reshaped.extents);
  for (const ReshapedPart& part : reshaped.parts) {
    ASSERT_EQ(part.box.dims(), static_cast<int>(own.size()));
    ASSERT_TRUE(Box::Whole(own).Contains(part.box)) << part.box.ToString();
    std::vector<double> cells;
    for (int64_t cell : CellsOf(own, part.box)) cells.push_back(static_cast<double>(cell));
    ASSERT_EQ(VolumeOf(part.extents), part.box.Volume());
    CopyCells(cells.data(), part.extents, strides, found.data() + IndexIn(reshaped.extents, part.at));
  }
  const std::vector<int64_t> expected = CellsOf(seen, box);
  for (size_t i = 0; i < expected.size(); ++i) ASSERT_EQ(found[i], expected[i]) << i;
}

TEST(ReshapedBoxTest, EqualShapesAreOneBox) {
  const Box box({{3, 5}, {0, 1}, {1, 4}, {2, 3}});
  const ReshapedBox reshaped = BoxesUnder({9, 1, 4, 6}, box, {9, 4, 6, 1, 1});
  ASSERT_EQ(reshaped.parts.size(), 1u);
  EXPECT_EQ(reshaped.parts[0].box, Box({{3, 5}, {1, 4}, {2, 3}, {0, 1}, {0, 1}}));
}

TEST(ReshapedBoxTest, MergedDimsNeedFewBoxes) {
  const ReshapedBox reshaped = BoxesUnder({2, 4, 3}, Box({{0, 2}, {1, 3}, {0, 2}}), {8, 3});
  ASSERT_EQ(reshaped.parts.size(), 2u);
  EXPECT_EQ(reshaped.parts[0].box, Box({{1, 3}, {0, 2}}));
  EXPECT_EQ(reshaped.parts[1].box, Box({{5, 7}, {0, 2}}));
}

TEST(ReshapedBoxTest, TakesScalarsAndEmptyBoxes) {
  EXPECT_EQ(BoxesUnder({}, Box(std::vector<Interval>{}), {1, 1}).parts.size(), 1u);
  EXPECT_EQ(BoxesUnder({1}, Box({{0, 1}}), {}).parts.size(), 1u);
  EXPECT_TRUE(BoxesUnder({4, 3}, Box({{1, 1}, {0, 3}}), {12}).parts.empty());
}

TEST(ReshapedBoxTest, RandomBoxesOfRandomShapesAreCovered) {
  const uint64_t seed = TestSeed();
  std::mt19937 random(seed);
  for (int round = 0; round < 3000; ++round) {
    SCOPED_TRACE(testing::Message() << "ADJOIN_TEST_SEED=" << seed << ", round " << round);
    const int64_t cells = std::vector<int64_t>{1, 2, 12, 24, 60, 72, 210, 256}[random() % 8];
    const std::vector<int64_t> seen = RandomShape(random, cells);
    std::vector<Interval> dims;
    for (int64_t extent : seen) {
      const int64_t lo = static_cast<int64_t>(random() % extent);
      dims.push_back({lo, lo + 1 + static_cast<int64_t>(random() % (extent - lo))});
    }
    Check(seen, Box(std::move(dims)), RandomShape(random, cells));
    if (HasFatalFailure()) return;
  }
}

TEST(CopyCellsTest, TakesNegativeStrides) {
  const std::vector<double> in = {1, 2, 3, 4, 5, 6};
  std::vector<float> out(8, 0);
  CopyCells(in.data(), {2, 3}, {-4, 1}, out.data() + 4);
  EXPECT_EQ(out, (std::vector<float>{4, 5, 6, 0, 1, 2, 3, 0}));
  std::vector<int64_t> turned(6, 0);
  CopyCells(in.data(), {1, 3, 2}, {6, -1, -3}, turned.data() + 5);
  EXPECT_EQ(turned, (std::vector<int64_t>{6, 4, 2, 5, 3, 1}));
  double scalar = 0;
  CopyCells(in.data() + 2, {}, {}, &scalar);
  EXPECT_EQ(scalar, 3);
  CopyCells(in.data(), {2, 0}, {1, 1}, &scalar);
  EXPECT_EQ(scalar, 3);
}

}  // namespace
}  // namespace adjoin
