#include "planner/spec/augment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "layers/rules/spec_error.h"

namespace adjoin {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Dataset SetOf(const std::vector<std::vector<int64_t>>& shapes, const std::vector<std::string>& augment) {
  Dataset dataset;
  for (const std::vector<int64_t>& shape : shapes) {
    Field& field = *dataset.add_field();
    for (int64_t extent : shape) field.add_shape(extent);
  }
  for (const std::string& entry : augment) dataset.add_augment(entry);
  return dataset;
}

TEST(AugmentTest, ReadsFlipsAndAShift) {
  const auto augment = ParseAugment(SetOf({{1, 4, 6, 8}, {4, 6, 8}}, {"flip(2)", " shift(3) ", "flip(0)"}));
  ASSERT_TRUE(augment.ok()) << augment.status();
  EXPECT_THAT(augment->flip, ElementsAre(2, 0));
  EXPECT_EQ(augment->shift, 3);
  EXPECT_TRUE(ParseAugment(SetOf({{}}, {}))->empty());
}

TEST(AugmentTest, SpatialDimsAreThoseOfABlockOrAllButTheFirst) {
  Dataset dataset = SetOf({{3, 32, 32}, {}, {32, 32}, {10}}, {});
  EXPECT_EQ(SpatialDims(dataset), 2);
  EXPECT_TRUE(HasSpatialDims(dataset, 3));
  EXPECT_TRUE(HasSpatialDims(dataset, 2));
  EXPECT_FALSE(HasSpatialDims(dataset, 1));
  dataset.mutable_blocks()->add_size(8);
  EXPECT_EQ(SpatialDims(dataset), 1);
  EXPECT_TRUE(HasSpatialDims(dataset, 1));
  EXPECT_EQ(SpatialDims(SetOf({{}}, {})), 0);
  EXPECT_FALSE(HasSpatialDims(SetOf({{}}, {}), 0));
}

TEST(AugmentTest, ErrorsNameTheEntryAndTheMistake) {
  const auto error = [](const std::string& entry) {
    return ParseAugment(SetOf({{3, 32, 32}}, {"flip(0)", entry})).status();
  };
  EXPECT_EQ(FieldOf(error("flip(2)")), "augment[1]");
  EXPECT_THAT(std::string(error("flip(2)").message()), HasSubstr("write flip(0) to flip(1)"));
  EXPECT_THAT(std::string(error("flip(0)").message()), HasSubstr("stands twice"));
  EXPECT_THAT(std::string(error("flip(-1)").message()), HasSubstr("spatial dim -1"));
  EXPECT_THAT(std::string(error("shift(0)").message()), HasSubstr("must be from 1"));
  for (const char* unknown :
       {"rotate(90)", "flip", "flip(x)", "flip(0", "", "shift()", "shift(99999999999999999999)"}) {
    EXPECT_THAT(std::string(error(unknown).message()), HasSubstr("is not known")) << unknown;
  }
  EXPECT_THAT(std::string(ParseAugment(SetOf({{3, 8}}, {"shift(1)", "shift(2)"})).status().message()),
              HasSubstr("the second shift"));
  EXPECT_THAT(std::string(ParseAugment(SetOf({{3}}, {"shift(1)"})).status().message()), HasSubstr("have none"));
}

// The usual mistake: an image without channels, whose height is then taken for them.
TEST(AugmentTest, ErrorsTellWhichDimsAreSpatialAndHowAFieldWithoutChannelsIsWritten) {
  const auto error = [](const Dataset& dataset) { return std::string(ParseAugment(dataset).status().message()); };
  EXPECT_THAT(error(SetOf({{}, {28, 28}}, {"flip(1)"})),
              HasSubstr("the fields have 1: write flip(0); spatial dims are all but the first, the channels, of the "
                        "field with most dims, "));
  EXPECT_THAT(error(SetOf({{}, {28, 28}}, {"flip(1)"})),
              HasSubstr("of shape [28, 28]; a field without channels gets a leading 1, shape: [1, 28, 28]"));
  EXPECT_THAT(error(SetOf({{100}}, {"shift(2)"})), HasSubstr("have none; spatial dims are all but the first"));
  EXPECT_THAT(error(SetOf({{}}, {"flip(0)"})), HasSubstr("the fields have 0; no field has a shape"));
  Dataset blocks = SetOf({{12, 12, 12}}, {"flip(2)"});
  blocks.mutable_blocks()->add_size(4);
  blocks.mutable_blocks()->add_size(4);
  EXPECT_THAT(error(blocks), HasSubstr("write flip(0) to flip(1); spatial dims are those of blocks.size, 2"));
}

}  // namespace
}  // namespace adjoin
