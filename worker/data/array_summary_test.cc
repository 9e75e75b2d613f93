#include "worker/data/array_summary.h"

#include <cmath>

#include <limits>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "worker/data/idx_test_files.h"

namespace adjoin {
namespace {

ArraySummary SummaryOf(IdxType type, const std::vector<int64_t>& shape, const std::vector<double>& cells) {
  const std::string path = TestPath("cells.idx");
  WriteFile(path, IdxBytes(type, shape, cells));
  auto file = ArrayFile::Open(path, {});
  EXPECT_TRUE(file.ok()) << file.status();
  auto summary = Summarise(**file);
  EXPECT_TRUE(summary.ok()) << summary.status();
  return *summary;
}

TEST(ArraySummaryTest, PiecesCoverTheArrayInOrder) {
  for (const std::vector<int64_t>& shape : {std::vector<int64_t>{}, {7}, {3, 4, 5}, {1, 1, 9}, {5, 1, 2, 3}, {3, 0}}) {
    for (int64_t cells : {1, 2, 5, 7, 20, 1000}) {
      int64_t next = 0;
      ASSERT_TRUE(ForEachPiece(shape, cells, [&](const Box& box) {
                    EXPECT_LE(box.Volume(), cells);
                    EXPECT_TRUE(Box::Whole(shape).Contains(box));
                    int64_t first = 0;
                    for (int dim = 0; dim < box.dims(); ++dim) first = first * shape[dim] + box[dim].lo;
                    EXPECT_EQ(first, next);
                    next += box.Volume();
                    return absl::OkStatus();
                  }).ok());
      EXPECT_EQ(next, VolumeOf(shape));
    }
  }
}

TEST(ArraySummaryTest, CountsEachOfAFewWholeNumbers) {
  const ArraySummary summary = SummaryOf(IdxType::kInt8, {2, 4}, {-1, 3, 3, 0, 3, -1, 1, 3});
  EXPECT_EQ(summary.min, -1);
  EXPECT_EQ(summary.max, 3);
  EXPECT_EQ(summary.mean, 11.0 / 8);
  ASSERT_EQ(summary.bins.size(), 5u);
  const std::vector<int64_t> counts = {2, 1, 1, 0, 4};
  for (size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(summary.bins[i].lo, static_cast<double>(i) - 1);
    EXPECT_EQ(summary.bins[i].count, counts[i]);
  }
}

TEST(ArraySummaryTest, CountsValuesThatAreNotFiniteApart) {
  const double nan = std::nan(""), inf = std::numeric_limits<double>::infinity();
  const ArraySummary summary =
      SummaryOf(IdxType::kFloat32, {2, 2, 3}, {0.5, 1, 2, 2.5, nan, nan, -inf, 1, 1, 1, inf, 32.5});
  EXPECT_EQ(summary.cells, 12);
  EXPECT_EQ(summary.finite, 8);
  EXPECT_EQ(summary.nan_count, 2);
  EXPECT_EQ(summary.first_nan, (std::vector<int64_t>{0, 1, 1}));
  EXPECT_EQ(summary.infinite_count, 2);
  EXPECT_EQ(summary.first_infinite, (std::vector<int64_t>{1, 0, 0}));
  EXPECT_EQ(summary.min, 0.5);
  EXPECT_EQ(summary.max, 32.5);
  ASSERT_EQ(summary.bins.size(), 16u);
  EXPECT_EQ(summary.bins[0].count, 6) << "[0.5, 2.5)";
  EXPECT_EQ(summary.bins[1].count, 1) << "[2.5, 4.5)";
  EXPECT_EQ(summary.bins[15].count, 1) << "the largest one is in the last bin";
}

TEST(ArraySummaryTest, HandlesNoValuesAndTheWidestRange) {
  EXPECT_EQ(SummaryOf(IdxType::kUInt8, {0, 3}, {}).cells, 0);
  const ArraySummary nans = SummaryOf(IdxType::kFloat64, {1}, {std::nan("")});
  EXPECT_EQ(nans.finite, 0);
  EXPECT_TRUE(nans.bins.empty());
  const double most = std::numeric_limits<double>::max();
  const ArraySummary wide = SummaryOf(IdxType::kFloat64, {3}, {-most, 0.25, most});
  ASSERT_EQ(wide.bins.size(), 16u);
  EXPECT_EQ(wide.bins[0].count, 1);
  EXPECT_EQ(wide.bins[8].count, 1);
  EXPECT_EQ(wide.bins[15].count, 1);
  const ArraySummary flat = SummaryOf(IdxType::kFloat64, {2}, {0.5, 0.5});
  ASSERT_EQ(flat.bins.size(), 1u);
  EXPECT_EQ(flat.bins[0].count, 2);
}

}  // namespace
}  // namespace adjoin
