#include "planner/checks/dataset_check.h"

#include <string>

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include "layers/rules/spec_error.h"

namespace adjoin {
namespace {

using ::testing::HasSubstr;

JobSpec SpecOf(const std::string& fields, const std::string& rest) {
  JobSpec spec;
  Dataset& dataset = *spec.add_dataset();
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString("name: \"train\" " + fields + rest, &dataset))
      << fields << rest;
  return spec;
}

// Returns the field and the message of the error; "" where there is none.
std::string Wrong(const std::string& field, const std::string& rest = "") {
  const absl::Status status = CheckDatasets(SpecOf("field { name: \"image\" " + field + " } ", rest));
  return status.ok() ? "" : FieldOf(status) + ": " + std::string(status.message());
}

const char kVolumes[] =
    "field { name: \"image\" nifti { path: \"a.nii.gz\" path: \"b.nii.gz\" } shape: [1, 8, 6, 10] } "
    "field { name: \"label\" npy { path: \"l.npy\" } shape: [8, 6, 10] dtype: \"int64\" remap: [0, 1, 1, -100] } "
    "field { name: \"age\" hdf5 { path: \"t.h5\" object: \"age\" } } ";

std::string WrongVolumes(const std::string& rest, const std::string& fields = kVolumes) {
  const absl::Status status = CheckDatasets(SpecOf(fields, rest));
  return status.ok() ? "" : FieldOf(status) + ": " + std::string(status.message());
}

TEST(DatasetCheckTest, SourcesOfAllKinds) {
  EXPECT_EQ(Wrong("idx { path: \"a\" }"), "");
  EXPECT_EQ(WrongVolumes(""), "");
  EXPECT_EQ(WrongVolumes(
                "blocks { size: [4, 4, 4] per_epoch: 100 } augment: \"flip(2)\" augment: \"shift(2)\" shuffle: true"),
            "");
  EXPECT_THAT(Wrong(""), HasSubstr("dataset[0].field[0]: its source is missing"));
  EXPECT_THAT(Wrong("npy {}"), HasSubstr("field[0].npy: npy.path is missing"));
  EXPECT_THAT(Wrong("nifti { path: [\"a\", \"\"] }"), HasSubstr("field[0].nifti.path[1]: an empty path"));
  EXPECT_THAT(Wrong("hdf5 { path: \"../a\" object: \"x\" }"), HasSubstr("field[0].hdf5.path[0]: "));
  EXPECT_EQ(Wrong("hdf5 { path: \"a\" }"), "");
  EXPECT_THAT(Wrong("npy { path: \"a\" object: \"x\" }"), HasSubstr("field[0].npy.object: only files of format hdf5"));
}

TEST(DatasetCheckTest, SyntheticValues) {
  EXPECT_EQ(Wrong("synthetic { kind: \"normal\" samples: 3 } shape: [4]"), "");
  EXPECT_EQ(Wrong("synthetic { kind: \"uniform\" samples: 3 low: -1 high: 0.5 }"), "");
  EXPECT_EQ(Wrong("synthetic { kind: \"index\" samples: 3 high: 10 } dtype: \"int64\""), "");
  EXPECT_EQ(Wrong("synthetic { kind: \"constant\" samples: 3 low: 2.5 }"), "");
  EXPECT_THAT(Wrong("synthetic { kind: \"normal\" }"), HasSubstr("field[0].synthetic: synthetic.samples is 0"));
  EXPECT_THAT(Wrong("synthetic { kind: \"normal\" samples: -1 }"), HasSubstr("synthetic.samples: "));
  EXPECT_THAT(Wrong("synthetic { kind: \"normal\" samples: 1 high: 2 }"), HasSubstr("synthetic.high: "));
  EXPECT_THAT(Wrong("synthetic { kind: \"constant\" samples: 1 high: 2 }"), HasSubstr("takes no high"));
  EXPECT_THAT(Wrong("synthetic { kind: \"gauss\" samples: 1 }"), HasSubstr("synthetic.kind: "));
  EXPECT_THAT(Wrong("synthetic { samples: 1 }"), HasSubstr("field[0].synthetic: "));
  EXPECT_THAT(Wrong("synthetic { kind: \"uniform\" samples: 1 }"), HasSubstr("from low to below high"));
  EXPECT_THAT(Wrong("synthetic { kind: \"index\" samples: 1 low: 0.5 high: 3 }"), HasSubstr("synthetic.low: "));
  EXPECT_THAT(Wrong("synthetic { kind: \"uniform\" samples: 1 low: nan high: 3 }"), HasSubstr("finite"));
}

TEST(DatasetCheckTest, Remap) {
  EXPECT_EQ(Wrong("idx { path: \"a\" } dtype: \"int64\" remap: [0, 1]"), "");
  EXPECT_THAT(Wrong("idx { path: \"a\" } remap: [0, 1]"), HasSubstr("field[0].remap: "));
  EXPECT_THAT(Wrong("idx { path: \"a\" } dtype: \"int64\" remap: [0, 1] scale: 2"), HasSubstr("write either"));
  EXPECT_THAT(Wrong("idx { path: \"a\" } dtype: \"int64\" remap: [0, 9223372036854775807]"), HasSubstr("remap[1]: "));
}

TEST(DatasetCheckTest, Shapes) {
  EXPECT_THAT(Wrong("idx { path: \"a\" } shape: [3, 0]"), HasSubstr("shape[1]: "));
  EXPECT_THAT(Wrong("idx { path: \"a\" } shape: [4294967296, 4294967296]"), HasSubstr("more than 2^53 cells"));
  EXPECT_THAT(Wrong("idx { path: \"a\" } shape: [3, 4] mean: [1, 2]"), HasSubstr("one per channel (3)"));
}

TEST(DatasetCheckTest, Blocks) {
  EXPECT_THAT(WrongVolumes("blocks { per_epoch: 1 }"), HasSubstr("dataset[0].blocks: blocks.size is missing"));
  EXPECT_THAT(WrongVolumes("blocks { size: [4, 4, 4] }"), HasSubstr("dataset[0].blocks: blocks.per_epoch is 0"));
  EXPECT_THAT(WrongVolumes("blocks { size: [4, 4, 4] per_epoch: -1 }"), HasSubstr("blocks.per_epoch: "));
  EXPECT_THAT(WrongVolumes("blocks { size: [1, 1, 1, 1, 4] per_epoch: 1 }"), HasSubstr("no field has as many dims"));
  EXPECT_THAT(WrongVolumes("blocks { size: [4, 7, 4] per_epoch: 1 }"),
              HasSubstr("blocks.size[1]: blocks.size has 7 where field \"image\" has 6 cells"));
  EXPECT_THAT(WrongVolumes("blocks { size: [4, 0, 4] per_epoch: 1 }"), HasSubstr("blocks.size[1]: "));
  const std::string other =
      "field { name: \"image\" npy { path: \"a\" } shape: [1, 8, 6, 10] } "
      "field { name: \"label\" npy { path: \"l\" } shape: [8, 6, 12] } ";
  EXPECT_EQ(WrongVolumes("augment: \"flip(0)\"", other), "");
  for (const char* rest : {"blocks { size: [4, 4, 4] per_epoch: 1 }", "augment: \"shift(1)\""}) {
    EXPECT_THAT(WrongVolumes(rest, other),
                HasSubstr("field[1].shape: field \"label\" ends in 8x6x12, field \"image\" in 8x6x10"));
  }
  const std::string means = "field { name: \"image\" npy { path: \"a\" } shape: [2, 6] mean: [1, 2] } ";
  EXPECT_EQ(WrongVolumes("blocks { size: 3 per_epoch: 1 }", means), "");
  EXPECT_THAT(WrongVolumes("blocks { size: [1, 3] per_epoch: 1 }", means),
              HasSubstr("field[0]: a mean or std for each"));
}

TEST(DatasetCheckTest, ExtentsThatDifferFromFileToFile) {
  const auto wrong = [](const std::string& image, const std::string& label, const std::string& rest) {
    return WrongVolumes(rest, "field { name: \"image\" nifti { path: \"a\" path: \"b\" } shape: " + image +
                                  " } field { name: \"label\" " +
                                  (label[0] == '[' ? "npy { path: \"l\" path: \"m\" } shape: " : "") + label + " } ");
  };
  const std::string blocks = "blocks { size: [4, 4, 4] per_epoch: 9 } ";
  EXPECT_EQ(wrong("[1, -1, -1, -1]", "[-1, -1, -1]", blocks), "");
  EXPECT_EQ(wrong("[2, -1, 512, 512]", "[-1, 512, 512]", blocks), "");
  EXPECT_THAT(wrong("[1, -2, -1, -1]", "[-1, -1, -1]", blocks), HasSubstr("field[0].shape[1]: "));
  EXPECT_EQ(wrong("[1, -1, -1, -1]", "[-1, -1, -1]", ""), "")
      << "whole volumes, as evaluation and prediction take them";
  EXPECT_EQ(wrong("[1, -1, -1, 512]", "[-1, -1, 512]", ""), "");
  EXPECT_THAT(wrong("[-1, -1, -1, -1]", "[-1, -1, -1]", ""),
              HasSubstr("field[0].shape[0]: shape has -1 in a dim that"));
  EXPECT_THAT(wrong("[-1, -1]", "[-1, -1]", ""), HasSubstr("gets a leading 1"));
  EXPECT_THAT(wrong("[1, -1, -1, -1]", "[-1, -1, 512]", ""),
              HasSubstr("field[1].shape: shape ends in -1x-1x512, that of field \"image\" in -1x-1x-1"));
  EXPECT_THAT(wrong("[-1, -1, -1, -1]", "[-1, -1, -1]", blocks), HasSubstr("in a dim that no block cuts"));
  EXPECT_THAT(wrong("[1, -1, -1, -1]", "[-1]", blocks), HasSubstr("field[1].shape[0]: "));
  EXPECT_THAT(wrong("[1, -1, -1, -1]", "[8, -1, -1]", blocks),
              HasSubstr("field[1].shape: field \"label\" ends in 8x-1x-1, field \"image\" in -1x-1x-1"));
  EXPECT_THAT(wrong("[1, 8, -1, -1]", "synthetic { kind: \"normal\" samples: 2 } shape: [8, -1, -1]", blocks),
              HasSubstr("field[1].shape[1]: shape has -1, but synthetic values come from no file"));
  EXPECT_THAT(wrong("[1, -1, -1, -1]", "[-1, -1, -1]", "blocks { size: [4, 0, 4] per_epoch: 9 }"),
              HasSubstr("blocks.size[1]: blocks.size has 0"));
  EXPECT_THAT(wrong("[1, 3, -1, -1]", "[3, -1, -1]", blocks), HasSubstr("blocks.size[0]: blocks.size has 4 where"));
  EXPECT_THAT(Wrong("nifti { path: \"a\" } shape: [-1, -1] mean: [1, 2]", blocks), HasSubstr("field[0].mean: "));
}

TEST(DatasetCheckTest, CoarserGridsWithBlocks) {
  const auto wrong = [](const std::string& target, const std::string& rest,
                        const std::string& image = "[1, 9, 6, 40]") {
    return WrongVolumes(
        rest, "field { name: \"image\" npy { path: \"a\" path: \"b\" } shape: " + image +
                  " } field { name: \"label\" npy { path: \"l\" path: \"m\" } dtype: \"int64\" shape: " + target +
                  " } ");
  };
  const auto blocks = [](const std::string& size) { return "blocks { size: " + size + " per_epoch: 9 } "; };
  EXPECT_EQ(wrong("[5, 6, 10]", blocks("[4, 3, 8]")), "") << "by 2, rounded up, by 1 and by 4";
  EXPECT_THAT(
      wrong("[5, 6, 10]", blocks("[4, 3, 6]")),
      HasSubstr("blocks.size[2]: blocks.size has 6, which 4 does not divide: so much coarser is the grid of field"
                " \"label\" than that of \"image\""));
  EXPECT_THAT(wrong("[4, 6, 10]", blocks("[4, 3, 8]")), HasSubstr("field[1].shape: field \"label\" ends in 4x6x10"));
  EXPECT_THAT(wrong("[9, 6, 80]", blocks("[4, 3, 8]")), HasSubstr("the field with the finest grid comes first"));
  EXPECT_THAT(wrong("[5, 6, 10]", "blocks { size: [4, 3, 8] per_epoch: 9 foreground { field: \"label\" share: 0.5 } }"),
              HasSubstr("blocks.foreground.field: field \"label\" has a coarser grid"));
  EXPECT_THAT(wrong("[5, 6, 10]", blocks("[4, 3, 8]") + "augment: \"shift(1)\""), HasSubstr("for a shift"));
  EXPECT_EQ(wrong("[5, 6, 10]", blocks("[4, 3, 8]") + "augment: \"flip(0)\""), "");
  EXPECT_EQ(wrong("[-2, -1, 10]", blocks("[4, 3, 8]"), "[1, -1, -1, 40]"), "");
  EXPECT_EQ(wrong("[-2, -1, 10]", "", "[1, -1, -1, 40]"), "") << "whole volumes";
  EXPECT_THAT(wrong("[-3, -1, 40]", blocks("[4, 3, 8]"), "[1, -1, -1, 40]"),
              HasSubstr("field[1].shape[0]: shape has -3"));
  EXPECT_THAT(wrong("[-1, -1, 40]", blocks("[4, 3, 8]"), "[1, -2, -1, 40]"),
              HasSubstr("field[0].shape[1]: shape has -2, a coarser grid than that of a field before it"));
}

TEST(DatasetCheckTest, TrainingTakesNoWholeVolumesOfDifferentExtents) {
  JobSpec spec = SpecOf("field { name: \"image\" npy { path: \"a\" } shape: [1, -1, 8, 8] } ", "");
  spec.set_kind(TRAIN);
  spec.mutable_train()->set_dataset("other");
  EXPECT_TRUE(CheckDatasets(spec).ok()) << "such as that of a validation";
  spec.mutable_train()->set_dataset("train");
  const absl::Status status = CheckDatasets(spec);
  EXPECT_EQ(FieldOf(status), "dataset[0].field[0].shape[1]");
  EXPECT_THAT(std::string(status.message()), HasSubstr("training takes samples of one shape"));
}

TEST(DatasetCheckTest, NormalisationBySample) {
  const std::string image = "nifti { path: \"a\" } shape: [2, 8, 6] ";
  EXPECT_EQ(Wrong(image + "normalize: \"zscore\""), "");
  EXPECT_EQ(Wrong(image + "normalize: \"zscore\" clip_percentile: [0.5, 99.5]"), "");
  EXPECT_EQ(Wrong(image + "clip_percentile: [0, 100] scale: 2 mean: [1, 2] std: 3"), "");
  EXPECT_EQ(Wrong("synthetic { kind: \"normal\" samples: 3 } shape: [4] normalize: \"zscore\""), "");
  EXPECT_THAT(Wrong(image + "normalize: \"minmax\""),
              HasSubstr("field[0].normalize: normalize is \"minmax\"; it must"));
  for (const char* other : {"mean: 1", "std: 2", "scale: 3"}) {
    EXPECT_THAT(Wrong(image + "normalize: \"zscore\" " + other), HasSubstr("field[0].normalize: normalize uses"));
  }
  for (const char* limits : {"[1]", "[1, 2, 3]", "[2, 1]", "[1, 1]", "[-1, 99]", "[1, 101]", "[nan, 99]", "[1, nan]"}) {
    EXPECT_THAT(Wrong(image + "clip_percentile: " + limits),
                HasSubstr("field[0].clip_percentile: clip_percentile is ["))
        << limits;
  }
  for (const char* which : {"normalize: \"zscore\"", "clip_percentile: [1, 99]"}) {
    EXPECT_THAT(Wrong(image + "dtype: \"int64\" " + which), HasSubstr("makes fractions"));
    EXPECT_THAT(Wrong(image + "dtype: \"int64\" remap: [0, 1] " + which), HasSubstr("makes fractions"));
  }
  EXPECT_THAT(Wrong("npy { path: \"a\" } normalize: \"zscore\""), HasSubstr("normalize would make every value 0"));
  EXPECT_THAT(Wrong("npy { path: \"a\" } shape: [3, 1, 1] normalize: \"zscore\""), HasSubstr("one cell per channel"));
  EXPECT_EQ(Wrong("npy { path: \"a\" } clip_percentile: [1, 99]"), "") << "of one value";
}

TEST(DatasetCheckTest, HowBlocksAreDrawn) {
  for (const char* by : {"", "sample", "cell"}) {
    EXPECT_EQ(WrongVolumes(std::string("blocks { size: [4, 4, 4] per_epoch: 9 by: \"") + by + "\" }"), "");
  }
  EXPECT_THAT(WrongVolumes("blocks { size: [4, 4, 4] per_epoch: 9 by: \"voxel\" }"),
              HasSubstr("dataset[0].blocks.by: blocks.by is \"voxel\"; it must be"));
}

TEST(DatasetCheckTest, BlocksAroundLabels) {
  const auto wrong = [](const std::string& foreground) {
    return WrongVolumes("blocks { size: [4, 4, 4] per_epoch: 9 foreground { " + foreground + " } }");
  };
  EXPECT_EQ(wrong("field: \"label\" share: 0.33"), "");
  EXPECT_EQ(wrong("field: \"label\" share: 1 label: [1, -100]"), "");
  EXPECT_THAT(wrong("share: 0.5"), HasSubstr("blocks.foreground: blocks.foreground.field is missing"));
  EXPECT_THAT(wrong("field: \"mask\" share: 0.5"), HasSubstr("blocks.foreground.field: "));
  EXPECT_THAT(wrong("field: \"image\" share: 0.5"), HasSubstr("no channels"));
  EXPECT_THAT(wrong("field: \"age\" share: 0.5"), HasSubstr("with the 3 dims of a block"));
  EXPECT_THAT(wrong("field: \"label\""), HasSubstr("blocks.foreground: blocks.foreground.share is 0"));
  for (const char* share : {"-0.1", "1.5", "nan"}) {
    EXPECT_THAT(wrong(std::string("field: \"label\" share: ") + share), HasSubstr("blocks.foreground.share: "))
        << share;
  }
  EXPECT_THAT(wrong("field: \"label\" share: 1 label: [1, 1]"), HasSubstr("label[1]: label 1 stands twice"));
  EXPECT_THAT(wrong("field: \"label\" share: 1 label: 2"), HasSubstr("none of those that remap"));
  EXPECT_THAT(wrong("field: \"label\" share: 1 label: 9223372036854775807"), HasSubstr("label[0]: "));
}

TEST(DatasetCheckTest, Augment) {
  EXPECT_THAT(WrongVolumes("augment: \"flip(0)\" augment: \"flip(3)\""), HasSubstr("dataset[0].augment[1]: "));
}

}  // namespace
}  // namespace adjoin
