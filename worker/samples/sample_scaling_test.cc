#include "worker/samples/sample_scaling.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "primitives/geometry/box.h"
#include "worker/data/counted_reads.h"
#include "worker/samples/array_test_files.h"
#include "worker/samples/field_source.h"

namespace adjoin {
namespace {

using ::testing::HasSubstr;
using Shape = std::vector<int64_t>;

const std::atomic<bool> kNever{false};

// A data set of one field in files of `format`, with the source and the scaling of it.
class SampleScalingTest : public ::testing::Test {
 protected:
  void Open(const Shape& shape, const std::string& normalize, const std::vector<double>& percentages,
            const std::vector<std::string>& files, const std::string& format = "npy") {
    dataset_.Clear();
    Field& field = *dataset_.add_field();
    field.set_name("image");
    field.mutable_shape()->Assign(shape.begin(), shape.end());
    field.set_normalize(normalize);
    field.mutable_clip_percentile()->Assign(percentages.begin(), percentages.end());
    for (const std::string& file : files) SetFile(field, format, file);
    auto source = OpenFieldSource(dataset_, field, shape, 0, testing::TempDir());
    ASSERT_TRUE(source.ok()) << source.status();
    source_ = *std::move(source);
    scaling_ = std::make_unique<SampleScaling>(dataset_, field, source_.get());
  }
  void Write(const std::string& name, const Shape& shape, const std::vector<double>& cells) {
    WriteArray(testing::TempDir() + "/" + name, "npy", CellType::kFloat64, shape, cells);
  }
  std::string Error(int64_t sample) {
    double cell = 0;
    const Box box(std::vector<Interval>(dataset_.field(0).shape_size(), Interval{0, 1}));
    return std::string(scaling_->Apply(sample, 1, box, kNever, &cell).message());
  }

  Dataset dataset_;
  std::unique_ptr<FieldSource> source_;
  std::unique_ptr<SampleScaling> scaling_;
};

double MeanOf(const std::vector<double>& values) {
  long double sum = 0;
  for (double value : values) sum += value;
  return static_cast<double>(sum / values.size());
}

double StdOf(const std::vector<double>& values) {
  const long double mean = MeanOf(values);
  long double sum = 0;
  for (double value : values) sum += (value - mean) * (value - mean);
  return static_cast<double>(std::sqrt(sum / values.size()));
}

// The value at `percentage` between the sorted values next to it.
double PercentileOf(std::vector<double> values, double percentage) {
  std::sort(values.begin(), values.end());
  const double at = static_cast<double>(values.size() - 1) * percentage / 100;
  const auto below = static_cast<size_t>(at);
  if (below + 1 == values.size()) return values[below];
  return values[below] + (values[below + 1] - values[below]) * (at - static_cast<double>(below));
}

TEST_F(SampleScalingTest, EachChannelOfEachSampleByItself) {
  std::mt19937 random(3);
  std::vector<double> cells(3 * 2 * 5 * 7);
  for (double& cell : cells) cell = static_cast<double>(random() % 1000) / 7 - 50;
  Write("three.npy", {3, 2, 5, 7}, cells);
  for (const std::string normalize : {"", "zscore"}) {
    for (const std::vector<double>& percentages : {std::vector<double>{}, {0.5, 99.5}, {10, 60}}) {
      Open({2, 5, 7}, normalize, percentages, {"three.npy"});
      // Channel 1 and a part of channel 0, of the samples 1 and 2 at once.
      const Box box({{0, 2}, {1, 4}, {2, 7}});
      std::vector<double> found(2 * box.Volume());
      ASSERT_TRUE(source_->Read(1, 2, box, found.data()).ok());
      ASSERT_TRUE(scaling_->Apply(1, 2, box, kNever, found.data()).ok());
      size_t at = 0;
      for (int64_t sample : {1, 2}) {
        for (int64_t channel : {0, 1}) {
          const auto first = cells.begin() + (sample * 2 + channel) * 35;
          std::vector<double> values(first, first + 35);
          if (!percentages.empty()) {
            const std::vector<double> raw = values;
            for (double& value : values) {
              value = std::clamp(value, PercentileOf(raw, percentages[0]), PercentileOf(raw, percentages[1]));
            }
          }
          const double mean = MeanOf(values);
          const double std = StdOf(values);
          for (int64_t y = 1; y < 4; ++y) {
            for (int64_t x = 2; x < 7; ++x) {
              const double value = values[y * 7 + x];
              EXPECT_NEAR(found[at++], normalize.empty() ? value : (value - mean) / std, 1e-12);
            }
          }
        }
      }
    }
  }
}

// Larger ones are gone through in pieces, and not held.
TEST_F(SampleScalingTest, LargeSamplesInAnyOrderOfCells) {
  const Shape shape = {2, 170, 129, 130};
  const auto value = [](int64_t cell) { return cell * 7919 % 251; };
  WriteFortranNpy(testing::TempDir() + "/large.npy", {1, 2, 170, 129, 130}, value);
  Open(shape, "zscore", {5, 95}, {"large.npy"});
  const auto scalings = scaling_->Of(0, kNever);
  ASSERT_TRUE(scalings.ok()) << scalings.status();
  ASSERT_EQ((*scalings)->size(), 2u);
  const int64_t cells = VolumeOf(shape) / 2;
  for (int64_t channel : {0, 1}) {
    std::vector<double> values;
    for (int64_t i = 0; i < cells; ++i) values.push_back(static_cast<double>(value(channel * cells + i)));
    const ChannelScaling& found = (**scalings)[channel];
    EXPECT_EQ(found.low, PercentileOf(values, 5));
    EXPECT_EQ(found.high, PercentileOf(values, 95));
    for (double& one : values) one = std::clamp(one, found.low, found.high);
    EXPECT_NEAR(found.mean, MeanOf(values), 1e-12);
    EXPECT_NEAR(found.std, StdOf(values), 1e-12);
  }
  const int64_t before = source_->bytes_read();
  ASSERT_TRUE(scaling_->Of(0, kNever).ok());
  EXPECT_EQ(source_->bytes_read(), before) << "is kept";
  const std::atomic<bool> stop{true};
  Open(shape, "zscore", {}, {"large.npy"});
  EXPECT_EQ(scaling_->Of(0, stop).status().code(), absl::StatusCode::kCancelled);
}

TEST_F(SampleScalingTest, ConstantSamplesBecomeZero) {
  // 0.1 added up and divided is not 0.1.
  Write("constant.npy", {1, 2, 3, 7}, std::vector<double>(42, 0.1));
  for (const std::vector<double>& percentages : {std::vector<double>{}, {1, 99}}) {
    Open({2, 3, 7}, "zscore", percentages, {"constant.npy"});
    std::vector<double> cells(42, 0.1);
    ASSERT_TRUE(scaling_->Apply(0, 1, Box::Whole({2, 3, 7}), kNever, cells.data()).ok());
    EXPECT_EQ(cells, std::vector<double>(42, 0));
  }
  // Clipping makes it constant.
  std::vector<double> one(100, 3.3);
  one[7] = 1e6;
  Write("one.npy", {1, 1, 10, 10}, one);
  Open({1, 10, 10}, "zscore", {2, 98}, {"one.npy"});
  ASSERT_TRUE(scaling_->Apply(0, 1, Box::Whole({1, 10, 10}), kNever, one.data()).ok());
  EXPECT_EQ(one, std::vector<double>(100, 0));
}

// Fields without channels: vectors, and labels' companions that end with the dims of the blocks.
TEST_F(SampleScalingTest, WithoutChannelsTheSampleIsOne) {
  Write("rows.npy", {2, 4}, {1, 2, 3, 6, 5, 5, 5, 9});
  Open({4}, "zscore", {}, {"rows.npy"});
  EXPECT_EQ((*scaling_->Of(1, kNever))->size(), 1u);
  EXPECT_EQ((*scaling_->Of(1, kNever))->at(0).mean, 6);
}

TEST_F(SampleScalingTest, ValuesThatAreNotFiniteNameTheFile) {
  std::vector<double> cells(2 * 12, 1.0);
  cells[12 + 6] = std::nan("");
  Write("nan.npy", {2, 1, 3, 4}, cells);
  cells[12 + 6] = -std::numeric_limits<double>::infinity();
  Write("inf.npy", {1, 3, 4}, {cells.begin() + 12, cells.end()});
  Open({1, 3, 4}, "zscore", {}, {"nan.npy", "inf.npy"});
  EXPECT_EQ(Error(0), "");
  EXPECT_EQ(Error(1),
            "nan.npy, sample 1 from 0: position [0, 1, 2] is nan; normalize and clip_percentile need finite values in"
            " the whole sample");
  EXPECT_THAT(Error(2), HasSubstr("inf.npy: position [0, 1, 2] is -inf"));
  cells.assign(12, 1e308);
  cells[0] = -1e308;
  Write("large.npy", {1, 3, 4}, cells);
  for (const std::string normalize : {"", "zscore"}) {
    Open({1, 3, 4}, normalize, {1, 99}, {"large.npy"});
    EXPECT_THAT(Error(0), HasSubstr("large.npy: its values are too large"));
  }
}

// Values made from the seed are normalised as those of files are.
TEST_F(SampleScalingTest, SyntheticSamples) {
  Field& field = *dataset_.add_field();
  field.set_name("made");
  field.mutable_synthetic()->set_kind("uniform");
  field.mutable_synthetic()->set_samples(5);
  field.mutable_synthetic()->set_high(8);
  field.set_normalize("zscore");
  for (int64_t extent : {1, 30, 40}) field.add_shape(extent);
  source_ = *OpenFieldSource(dataset_, field, {1, 30, 40}, 4, "");
  SampleScaling scaling(dataset_, field, source_.get());
  std::vector<double> cells(1200);
  ASSERT_TRUE(source_->Read(3, 1, Box::Whole({1, 30, 40}), cells.data()).ok());
  ASSERT_TRUE(scaling.Apply(3, 1, Box::Whole({1, 30, 40}), kNever, cells.data()).ok());
  EXPECT_NEAR(MeanOf(cells), 0, 1e-12);
  EXPECT_NEAR(StdOf(cells), 1, 1e-12);
}

}  // namespace
}  // namespace adjoin
