#include "worker/samples/sample_places.h"

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

TEST(SamplePlacesTest, PlainSamplesAreInTheFilesOrder) {
  Dataset dataset = Volumes();
  dataset.set_limit(5);
  auto places = *SamplePlaces::Create(dataset, 3, 9);
  EXPECT_EQ(places->count(), 5);
  for (bool training : {false, true}) EXPECT_EQ(places->At(training, 2, 4), (SamplePlace{4, {}}));
  dataset.set_shuffle(true);
  places = *SamplePlaces::Create(dataset, 3, 9);
  for (int64_t epoch : {0, 1, 0}) {
    const std::vector<int64_t> order = Permutation(3, kPurposeShuffle, epoch, 5);
    for (int64_t place = 0; place < 5; ++place) {
      EXPECT_EQ(places->At(true, epoch, place), (SamplePlace{order[place], {}}));
      EXPECT_EQ(places->At(false, epoch, place), (SamplePlace{place, {}}));
    }
  }
}

TEST(SamplePlacesTest, BlocksComeFromEverywhereAlike) {
  Dataset dataset = Volumes();
  dataset.mutable_blocks()->add_size(5);
  dataset.mutable_blocks()->add_size(2);
  dataset.mutable_blocks()->set_per_epoch(6000);
  auto places = *SamplePlaces::Create(dataset, 3, 2);
  EXPECT_EQ(places->count(), 6000);
  std::map<std::vector<int64_t>, int> seen;
  int same = 0;
  for (int64_t place = 0; place < 6000; ++place) {
    const SamplePlace at = places->At(true, 4, place);
    ASSERT_EQ(at.dims.size(), 2u);
    EXPECT_FALSE(at.dims[0].mirrored);
    ++seen[{at.sample, at.dims[0].first, at.dims[1].first}];
    if (at == places->At(true, 5, place)) ++same;
    EXPECT_EQ(places->At(false, 4, place), places->At(true, 0, place));
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
TEST(SamplePlacesTest, ShuffledBlocksAreThoseOfTheirPlaces) {
  Dataset dataset = Volumes();
  dataset.mutable_blocks()->add_size(5);
  dataset.mutable_blocks()->add_size(2);
  dataset.mutable_blocks()->set_per_epoch(int64_t{1} << 53);
  auto plain = *SamplePlaces::Create(dataset, 3, 2);
  dataset.set_shuffle(true);
  auto shuffled = *SamplePlaces::Create(dataset, 3, 2);
  for (int64_t place : {int64_t{0}, int64_t{1}, (int64_t{1} << 53) - 1}) {
    EXPECT_EQ(shuffled->At(true, 4, place), plain->At(true, 4, place));
  }
}

TEST(SamplePlacesTest, FlipsAndShiftsInTrainingOnly) {
  Dataset dataset = Volumes();
  dataset.add_augment("flip(0)");
  dataset.add_augment("shift(2)");
  auto places = *SamplePlaces::Create(dataset, 3, 4000);
  std::map<std::vector<int64_t>, int> seen;
  for (int64_t place = 0; place < 4000; ++place) {
    EXPECT_TRUE(places->At(false, 0, place).dims.empty());
    const SamplePlace at = places->At(true, 0, place);
    EXPECT_EQ(at.sample, place);
    EXPECT_FALSE(at.dims[0].mirrored);
    ++seen[{at.dims[0].first, at.dims[1].mirrored ? 1 : 0, at.dims[1].first}];
  }
  // 5 shifts in each dim, and mirrored or not.
  EXPECT_EQ(seen.size(), 50u);
  for (const auto& [at, count] : seen) EXPECT_NEAR(count, 80, 50);
  EXPECT_EQ(seen.count({-2, 0, -2}), 1u);
  EXPECT_EQ(seen.count({2, 1, 2}), 1u);
}

TEST(SamplePlacesTest, MirroredCells) {
  // Cells 0 .. 3 are 5, 4, 3, 2.
  const DimPlace mirrored{2, true};
  EXPECT_EQ(mirrored.CellOf(0, 4), 5);
  EXPECT_EQ(mirrored.In({0, 4}, 4), (Interval{2, 6}));
  EXPECT_EQ(mirrored.In({1, 3}, 4), (Interval{3, 5}));
  EXPECT_EQ(mirrored.CellOf(0, 2), 3) << "a field of half the extent";
  EXPECT_EQ((DimPlace{-2, false}.In({0, 4}, 4)), (Interval{-2, 2}));
  EXPECT_EQ((DimPlace{-2, false}.CellOf(3, 4)), 1);
}

TEST(SamplePlacesTest, SaysWhatDoesNotFit) {
  EXPECT_THAT(std::string(SamplePlaces::Create(Volumes(), 3, 0).status().message()), HasSubstr("has no samples"));
  Dataset dataset = Volumes();
  dataset.mutable_blocks()->add_size(5);
  dataset.mutable_blocks()->set_per_epoch(1);
  EXPECT_THAT(std::string(SamplePlaces::Create(dataset, 3, 1).status().message()), HasSubstr("a block has 5 cells"));
}

}  // namespace
}  // namespace adjoin
