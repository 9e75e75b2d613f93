#include "worker/samples/sample_rule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace adjoin {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using Shape = std::vector<int64_t>;

ArrayHeader HeaderOf(const std::string& format, const Shape& shape) {
  ArrayHeader header;
  header.format = format;
  header.shape = shape;
  return header;
}

TEST(SampleRuleTest, TheFirstDimCountsUnlessTheFileIsOneSample) {
  const auto samples = [](const Shape& shape, const Shape& sample) {
    return *SamplesIn(HeaderOf("npy", shape), sample);
  };
  EXPECT_EQ(samples({60000, 28, 28}, {1, 28, 28}), 60000);
  EXPECT_EQ(samples({28, 28}, {1, 28, 28}), 1);
  EXPECT_EQ(samples({1, 28, 1, 28}, {28, 28}), 1);
  EXPECT_EQ(samples({10, 784}, {1, 28, 28}), 10);
  EXPECT_EQ(samples({10}, {}), 10);
  EXPECT_EQ(samples({}, {}), 1);
  EXPECT_EQ(samples({}, {1, 1}), 1);
  EXPECT_EQ(samples({1}, {}), 1);
  EXPECT_EQ(samples({28, 28}, {28}), 28);
  EXPECT_EQ(samples({0, 28}, {28}), 0);
}

TEST(SampleRuleTest, NiftiFilesAreOneSample) {
  EXPECT_EQ(*SamplesIn(HeaderOf("nifti", {8, 6, 4}), Shape{1, 8, 6, 4}), 1);
  EXPECT_EQ(*SamplesIn(HeaderOf("nifti", {1, 8, 6, 4}), Shape{8, 6, 4}), 1);
  EXPECT_EQ(*SamplesIn(HeaderOf("nifti", {8, 6, 4}), std::nullopt), 1);
  EXPECT_THAT(std::string(SamplesIn(HeaderOf("nifti", {8, 6, 4}), Shape{6, 4}).status().message()),
              HasSubstr("the file (8x6x4 uint8) is one sample of [8, 6, 4]; shape is [6, 4]"));
}

// As many cells in another order would be read without an error, scrambled.
TEST(SampleRuleTest, OtherExtentsAreAnError) {
  for (const Shape& shape : {Shape{4, 6, 8}, {1, 4, 6, 8}, {8, 24}, {8, 6, 2, 2}}) {
    EXPECT_THAT(std::string(SamplesIn(HeaderOf("nifti", {8, 6, 4}), shape).status().message()),
                AllOf(HasSubstr("is not that of the file, which is [8, 6, 4]; a NIfTI file's extents are"),
                      HasSubstr("[z, y, x], which is nibabel's shape reversed")));
  }
  EXPECT_THAT(std::string(SamplesIn(HeaderOf("npy", {10, 32, 16, 3}), Shape{3, 32, 16}).status().message()),
              HasSubstr("shape [3, 32, 16] is not that of the file's samples, which is [32, 16, 3]: the same extents in"
                        " another order"));
  EXPECT_FALSE(SamplesIn(HeaderOf("hdf5", {10, 1, 6, 4}), Shape{4, 1, 6}).ok());
  EXPECT_EQ(*SamplesIn(HeaderOf("npy", {10, 6, 1, 4}), Shape{1, 6, 4}), 10);
  EXPECT_EQ(*SamplesIn(HeaderOf("npy", {10, 3, 512}), Shape{3, 32, 16}), 10);
  EXPECT_EQ(*SamplesIn(HeaderOf("npy", {10, 96, 16}), Shape{3, 32, 16}), 10);
}

TEST(SampleRuleTest, OtherCellsAreAnError) {
  EXPECT_THAT(std::string(SamplesIn(HeaderOf("idx", {10, 2, 3}), Shape{1, 2, 4}).status().message()),
              HasSubstr("the file (10x2x3 uint8) has 10 samples of [2, 3]; shape is [1, 2, 4]"));
  EXPECT_EQ(*SamplesIn(HeaderOf("idx", {10, 2, 3}), std::nullopt), 10);
  EXPECT_FALSE(SamplesIn(HeaderOf("npy", {10, 2}), Shape{int64_t{1} << 40, int64_t{1} << 40}).ok());
}

TEST(SampleRuleTest, ExtentsThatDifferAreTheFiles) {
  const auto shape = [](const std::string& format, const Shape& in_file, const Shape& sample) {
    EXPECT_EQ(SamplesIn(HeaderOf(format, in_file), sample).value_or(-1), 1);
    return SampleShapeIn(HeaderOf(format, in_file), sample).value_or(Shape{});
  };
  EXPECT_EQ(shape("nifti", {9, 7, 8}, {1, -1, -1, -1}), (Shape{1, 9, 7, 8}));
  EXPECT_EQ(shape("npy", {1, 1, 9, 7, 8}, {-1, -1, -1}), (Shape{9, 7, 8}));
  EXPECT_EQ(shape("npy", {2, 9, 7, 8}, {2, 1, -1, 7, -1}), (Shape{2, 1, 9, 7, 8}));
  EXPECT_EQ(shape("npy", {1, 7, 8}, {-1, -1, -1}), (Shape{1, 7, 8}));
  EXPECT_EQ(shape("nifti", {7, 8}, {1, -1, -1, 8}), (Shape{1, 1, 7, 8})) << "one slice";
  EXPECT_EQ(*SampleShapeIn(HeaderOf("npy", {60, 6}), {2, 3}), (Shape{2, 3})) << "nothing differs";
  for (const Shape& wrong : {Shape{7, 8}, {3, 9, 7, 8}, {2, 9, 6, 8}, {2, 0, 7, 8}, {2, 9, 7, 8, 1}}) {
    const absl::Status status = SamplesIn(HeaderOf("npy", wrong), Shape{2, -1, 7, -1}).status();
    EXPECT_THAT(std::string(status.message()), HasSubstr("; shape is [2, -1, 7, -1], where each file is one sample"))
        << testing::PrintToString(wrong);
  }
  // Where extents that are written out do not fit, the message tells how to write those that differ.
  for (const char* format : {"npy", "nifti"}) {
    const absl::Status status = SamplesIn(HeaderOf(format, {9, 7, 8}), Shape{1, 8, 7, 8}).status();
    EXPECT_THAT(std::string(status.message()),
                AllOf(HasSubstr("shape is [1, 8, 7, 8]"), HasSubstr("write -1 for those, and blocks")));
  }
}

}  // namespace
}  // namespace adjoin
