#include "worker/samples/sample_positions.h"

#include <map>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "primitives/random/philox.h"

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
  for (bool training : {false, true}) EXPECT_EQ(positions->At(training, 2, 4), (SamplePosition{4, {}}));
  dataset.set_shuffle(true);
  positions = *SamplePositions::Create(dataset, 3, 9);
  for (int64_t epoch : {0, 1, 0}) {
    const std::vector<int64_t> order = Permutation(3, kPurposeShuffle, epoch, 5);
    for (int64_t position = 0; position < 5; ++position) {
      EXPECT_EQ(positions->At(true, epoch, position), (SamplePosition{order[position], {}}));
      EXPECT_EQ(positions->At(false, epoch, position), (SamplePosition{position, {}}));
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
    const SamplePosition at = positions->At(true, 4, position);
    ASSERT_EQ(at.dims.size(), 2u);
    EXPECT_FALSE(at.dims[0].mirrored);
    ++seen[{at.sample, at.dims[0].first, at.dims[1].first}];
    if (at == positions->At(true, 5, position)) ++same;
    EXPECT_EQ(positions->At(false, 4, position), positions->At(true, 0, position));
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
    EXPECT_EQ(shuffled->At(true, 4, position), plain->At(true, 4, position));
  }
}

TEST(SamplePositionsTest, FlipsAndShiftsOnlyInTraining) {
  Dataset dataset = Volumes();
  dataset.add_augment("flip(0)");
  dataset.add_augment("shift(2)");
  auto positions = *SamplePositions::Create(dataset, 3, 4000);
  std::map<std::vector<int64_t>, int> seen;
  for (int64_t position = 0; position < 4000; ++position) {
    EXPECT_TRUE(positions->At(false, 0, position).dims.empty());
    const SamplePosition at = positions->At(true, 0, position);
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
