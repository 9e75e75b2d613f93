#include "worker/samples/sample_positions.h"

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "primitives/geometry/box.h"
#include "primitives/random/philox.h"
#include "worker/samples/field_source.h"
#include "worker/samples/label_cells.h"

namespace adjoin {
namespace {

using ::testing::HasSubstr;

Dataset Volumes() {
  Dataset dataset;
  dataset.set_name("set");
  dataset.add_field()->set_name("age");
  Field& image = *dataset.add_field();
  image.set_name("image");
  for (int64_t extent : {1, 6, 4}) image.add_shape(extent);
  return dataset;
}

TEST(SamplePositionsTest, SamplesAreInTheFilesOrderUnlessShuffled) {
  Dataset dataset = Volumes();
  dataset.set_limit(5);
  auto positions = *SamplePositions::Create(dataset, 3, 9);
  EXPECT_EQ(positions->count(), 5);
  for (bool training : {false, true}) EXPECT_EQ(*positions->At(training, 2, 4), (SamplePosition{4, {}}));
  dataset.set_shuffle(true);
  positions = *SamplePositions::Create(dataset, 3, 9);
  for (int64_t epoch : {0, 1, 0}) {
    const std::vector<int64_t> order = Permutation(3, kPurposeShuffle, epoch, 5);
    for (int64_t position = 0; position < 5; ++position) {
      EXPECT_EQ(*positions->At(true, epoch, position), (SamplePosition{order[position], {}}));
      EXPECT_EQ(*positions->At(false, epoch, position), (SamplePosition{position, {}}));
    }
  }
}

TEST(SamplePositionsTest, BlocksAreDrawnUniformly) {
  Dataset dataset = Volumes();
  dataset.mutable_blocks()->add_size(5);
  dataset.mutable_blocks()->add_size(2);
  dataset.mutable_blocks()->set_per_epoch(6000);
  auto positions = *SamplePositions::Create(dataset, 3, 2);
  EXPECT_EQ(positions->count(), 6000);
  std::map<std::vector<int64_t>, int> seen;
  int same = 0;
  for (int64_t position = 0; position < 6000; ++position) {
    const SamplePosition at = *positions->At(true, 4, position);
    ASSERT_EQ(at.dims.size(), 2u);
    EXPECT_FALSE(at.dims[0].mirrored);
    ++seen[{at.sample, at.dims[0].first, at.dims[1].first}];
    if (at == *positions->At(true, 5, position)) ++same;
    EXPECT_EQ(*positions->At(false, 4, position), *positions->At(true, 0, position));
  }
  EXPECT_EQ(seen.size(), 2u * 2 * 3);
  for (const auto& [where, count] : seen) {
    EXPECT_NEAR(count, 500, 110);
    EXPECT_GE(where[1], 0);
    EXPECT_GE(where[2], 0);
  }
  EXPECT_NEAR(same, 500, 110);
}

// Blocks are random as it is: an order of as many as a spec may ask for would not fit in memory.
TEST(SamplePositionsTest, ShufflingLeavesBlocksAsTheyAre) {
  Dataset dataset = Volumes();
  dataset.mutable_blocks()->add_size(5);
  dataset.mutable_blocks()->add_size(2);
  dataset.mutable_blocks()->set_per_epoch(int64_t{1} << 53);
  auto plain = *SamplePositions::Create(dataset, 3, 2);
  dataset.set_shuffle(true);
  auto shuffled = *SamplePositions::Create(dataset, 3, 2);
  for (int64_t position : {int64_t{0}, int64_t{1}, (int64_t{1} << 53) - 1}) {
    EXPECT_EQ(*shuffled->At(true, 4, position), *plain->At(true, 4, position));
  }
}

TEST(SamplePositionsTest, FlipsAndShiftsOnlyInTraining) {
  Dataset dataset = Volumes();
  dataset.add_augment("flip(0)");
  dataset.add_augment("shift(2)");
  auto positions = *SamplePositions::Create(dataset, 3, 4000);
  std::map<std::vector<int64_t>, int> seen;
  for (int64_t position = 0; position < 4000; ++position) {
    EXPECT_TRUE(positions->At(false, 0, position)->dims.empty());
    const SamplePosition at = *positions->At(true, 0, position);
    EXPECT_EQ(at.sample, position);
    EXPECT_FALSE(at.dims[0].mirrored);
    ++seen[{at.dims[0].first, at.dims[1].mirrored ? 1 : 0, at.dims[1].first}];
  }
  // 5 shifts in each dim, and mirrored or not.
  EXPECT_EQ(seen.size(), 50u);
  for (const auto& [at, count] : seen) EXPECT_NEAR(count, 80, 50);
  EXPECT_EQ(seen.count({-2, 0, -2}), 1u);
  EXPECT_EQ(seen.count({2, 1, 2}), 1u);
}

// Three volumes of other extents, with blocks of 3x4.
Dataset VaryingVolumes() {
  Dataset dataset = Volumes();
  dataset.mutable_field(1)->set_shape(1, -1);
  dataset.mutable_field(1)->set_shape(2, -1);
  for (int64_t extent : {3, 4}) dataset.mutable_blocks()->add_size(extent);
  dataset.mutable_blocks()->set_per_epoch(12000);
  return dataset;
}

SampleExtents ExtentsOf(const Dataset& dataset, const std::vector<std::vector<int64_t>>& shapes) {
  SampleExtents extents(dataset);
  for (const std::vector<int64_t>& shape : shapes) EXPECT_TRUE(extents.Add("image", "a file", shape).ok());
  return extents;
}

TEST(SamplePositionsTest, BlocksFillEachSamplesOwnExtents) {
  Dataset dataset = VaryingVolumes();
  const std::vector<std::vector<int64_t>> shapes = {{1, 3, 4}, {1, 9, 4}, {1, 6, 10}};
  const SampleExtents extents = ExtentsOf(dataset, shapes);
  for (const std::string by : {"", "sample", "cell"}) {
    dataset.mutable_blocks()->set_by(by);
    auto positions = *SamplePositions::Create(dataset, 3, 3, extents);
    std::vector<int> of_sample(3);
    std::map<std::vector<int64_t>, int> seen;
    for (int64_t position = 0; position < 12000; ++position) {
      const SamplePosition at = *positions->At(true, 1, position);
      ++of_sample[at.sample];
      ++seen[{at.sample, at.dims[0].first, at.dims[1].first}];
    }
    ASSERT_EQ(seen.size(), 1u + 7 + 4 * 7) << "each position, and no other";
    for (const auto& [where, count] : seen) {
      EXPECT_GE(where[1], 0);
      EXPECT_LE(where[1], shapes[where[0]][1] - 3);
      EXPECT_GE(where[2], 0);
      EXPECT_LE(where[2], shapes[where[0]][2] - 4);
    }
    for (int sample = 0; sample < 3; ++sample) {
      const double share = by == "cell" ? shapes[sample][1] * shapes[sample][2] / 108.0 : 1.0 / 3;
      EXPECT_NEAR(of_sample[sample], 12000 * share, 300) << by;  // more than 5 standard deviations
    }
  }
  dataset.set_limit(2);
  auto positions = *SamplePositions::Create(dataset, 3, 3, extents);
  for (int64_t position = 0; position < 100; ++position) EXPECT_LT(positions->At(true, 1, position)->sample, 2);
  EXPECT_THAT(std::string(SamplePositions::Create(dataset, 3, 3).status().message()), HasSubstr("are known"));
}

TEST(SamplePositionsTest, RefusesMoreCellsThanCanBeCounted) {
  Dataset dataset = VaryingVolumes();
  dataset.mutable_blocks()->set_by("cell");
  constexpr int64_t kLong = int64_t{1} << 31;
  EXPECT_TRUE(SamplePositions::Create(dataset, 3, 1, ExtentsOf(dataset, {{1, kLong, kLong}})).ok());
  for (const auto& shapes :
       {std::vector<std::vector<int64_t>>{{1, kLong, kLong}, {1, kLong, kLong}}, {{1, kLong, 4 * kLong}}}) {
    const auto size = static_cast<int64_t>(shapes.size());
    EXPECT_THAT(std::string(SamplePositions::Create(dataset, 3, size, ExtentsOf(dataset, shapes)).status().message()),
                HasSubstr("more than 2^63 cells"));
  }
}

// Labels of 10x9 made from numbers: cells (0, 0) and (5, 4) are 1, (9, 8) is 2.
class TwoLabels : public FieldSource {
 public:
  int64_t samples() const override { return 2; }
  const std::vector<int64_t>& ShapeOf(int64_t) const override { return shape_; }
  std::string NameOf(int64_t) const override { return "two"; }
  absl::Status Read(int64_t sample, int64_t, const Box& box, double* out) override {
    for (int64_t y = box[0].lo; y < box[0].hi; ++y) {
      for (int64_t x = box[1].lo; x < box[1].hi; ++x) {
        *out++ = sample == 1 ? 0 : (y == 0 && x == 0) || (y == 5 && x == 4) ? 1 : y == 9 && x == 8 ? 2 : 0;
      }
    }
    return absl::OkStatus();
  }
  int64_t bytes_read() const override { return 0; }

 private:
  const std::vector<int64_t> shape_ = {10, 9};
};

TEST(SamplePositionsTest, AShareOfTheBlocksHasALabelInItsMiddle) {
  Dataset dataset;
  Field& label = *dataset.add_field();
  label.set_name("label");
  label.set_dtype("int64");
  for (int64_t extent : {10, 9}) label.add_shape(extent);
  for (int64_t extent : {4, 3}) dataset.mutable_blocks()->add_size(extent);
  dataset.mutable_blocks()->set_per_epoch(8000);
  auto plain = *SamplePositions::Create(dataset, 3, 2);
  Foreground& foreground = *dataset.mutable_blocks()->mutable_foreground();
  foreground.set_field("label");
  foreground.set_share(0.4);
  TwoLabels source;
  auto labels = *LabelCells::Create(dataset, 3, &source);
  auto positions = *SamplePositions::Create(dataset, 3, 2);
  positions->SetForeground(labels.get());
  std::map<std::vector<int64_t>, int> changed;
  int of_first = 0;
  for (int64_t position = 0; position < 8000; ++position) {
    const SamplePosition at = *positions->At(true, 1, position);
    const SamplePosition without = *plain->At(true, 1, position);
    ASSERT_EQ(at.sample, without.sample);
    of_first += at.sample == 0 ? 1 : 0;
    if (at == without) continue;
    ASSERT_EQ(at.sample, 0) << "the other one has no label";
    ++changed[{at.dims[0].first, at.dims[1].first}];
  }
  // Each label as often, and so each of the two cells of the first half as often; at the borders the block stays
  // inside. One in 49 of those that are drawn so would have been there without.
  ASSERT_EQ(changed.size(), 3u);
  const double drawn = of_first * 0.4 * 48 / 49;
  EXPECT_NEAR((changed[{0, 0}]), drawn / 4, 110);
  EXPECT_NEAR((changed[{3, 3}]), drawn / 4, 110);
  EXPECT_NEAR((changed[{6, 6}]), drawn / 2, 140);
}

TEST(DimPositionTest, MirrorsCells) {
  // Cells 0 .. 3 are 5, 4, 3, 2.
  const DimPosition mirrored{2, true};
  EXPECT_EQ(mirrored.CellOf(0, 4), 5);
  EXPECT_EQ(mirrored.In({0, 4}, 4), (Interval{2, 6}));
  EXPECT_EQ(mirrored.In({1, 3}, 4), (Interval{3, 5}));
  EXPECT_EQ(mirrored.CellOf(0, 2), 3) << "a field of half the extent";
  EXPECT_EQ((DimPosition{-2, false}.In({0, 4}, 4)), (Interval{-2, 2}));
  EXPECT_EQ((DimPosition{-2, false}.CellOf(3, 4)), 1);
}

TEST(SamplePositionsTest, RefusesBlocksThatDoNotFit) {
  EXPECT_THAT(std::string(SamplePositions::Create(Volumes(), 3, 0).status().message()), HasSubstr("has no samples"));
  Dataset dataset = Volumes();
  dataset.mutable_blocks()->add_size(5);
  dataset.mutable_blocks()->set_per_epoch(1);
  EXPECT_THAT(std::string(SamplePositions::Create(dataset, 3, 1).status().message()), HasSubstr("a block has 5 cells"));
}

}  // namespace
}  // namespace adjoin
