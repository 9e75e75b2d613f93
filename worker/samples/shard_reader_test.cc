#include "worker/samples/shard_reader.h"

#include <cmath>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "layers/rules/layout_proto.h"
#include "primitives/geometry/window.h"
#include "primitives/random/philox.h"
#include "worker/data/idx_test_files.h"
#include "worker/samples/array_test_files.h"

namespace adjoin {
namespace {

using testing::HasSubstr;

constexpr int64_t kSamples = 11;
constexpr int64_t kBatch = 5;

double Pixel(int64_t sample, int64_t channel, int64_t row, int64_t column) {
  return static_cast<double>((sample * 31 + channel * 17 + row * 5 + column) % 256);
}

// Two channels of 4x3, and labels; the first folder is plain, the second gzip.
std::string DataRoot(bool gzip) {
  const std::string root = testing::TempDir() + "/";
  std::vector<double> images;
  std::vector<double> labels;
  for (int64_t i = 0; i < kSamples * 2 * 4 * 3; ++i) images.push_back(Pixel(i / 24, i / 12 % 2, i / 3 % 4, i % 3));
  for (int64_t i = 0; i < kSamples; ++i) labels.push_back(static_cast<double>(i % 10));
  const std::string image_bytes = IdxBytes(IdxType::kUInt8, {kSamples, 8, 3}, images);  // the job reshapes it
  const std::string label_bytes = IdxBytes(IdxType::kUInt8, {kSamples}, labels);
  WriteFile(root + "images", gzip ? Gzip(image_bytes) : image_bytes);
  WriteFile(root + "labels", gzip ? Gzip(label_bytes) : label_bytes);
  return root;
}

Layout LayoutOf(std::vector<int64_t> shape, DType dtype, std::vector<int64_t> partition) {
  std::vector<int> ranks;
  for (int64_t rank = 0; rank < VolumeOf(partition); ++rank) ranks.push_back(static_cast<int>(rank));
  return *Layout::Partition(std::move(shape), dtype, std::move(partition), std::move(ranks));
}

void AddProgram(Plan& plan, const std::string& name, bool training, int64_t batch, const std::vector<int64_t>& cut) {
  ProgramPlan& program = *plan.add_program();
  program.set_name(name);
  program.set_training(training);
  program.set_dataset("set");
  program.set_batch(batch);
  ValuePlan& image = *program.add_value();
  image.set_name("image");
  image.set_field("image");
  *image.mutable_layout() = ToProto(LayoutOf({batch, 2, 4, 3}, DType::kFloat32, cut));
  ValuePlan& label = *program.add_value();
  label.set_name("label");
  label.set_field("label");
  *label.mutable_layout() = ToProto(LayoutOf({batch}, DType::kInt64, {cut[0]}));
  program.add_value()->set_name("a layer's output");
}

Plan PlanOf(const std::vector<int64_t>& cut, bool shuffle) {
  Plan plan;
  plan.mutable_spec()->set_seed(3);
  Dataset& set = *plan.mutable_spec()->add_dataset();
  set.set_name("set");
  set.set_shuffle(shuffle);
  Field& image = *set.add_field();
  image.set_name("image");
  image.mutable_idx()->add_path("images");
  image.set_scale(0.5);
  for (double mean : {1.0, 2.0}) image.add_mean(mean);
  for (double std : {4.0, 0.25}) image.add_std(std);
  Field& label = *set.add_field();
  label.set_name("label");
  label.mutable_idx()->add_path("labels");
  DatasetSize& size = *plan.add_dataset();
  size.set_name("set");
  size.set_samples(kSamples);
  AddProgram(plan, "train", true, kBatch, cut);
  AddProgram(plan, "train_tail", true, kSamples % kBatch, cut);
  AddProgram(plan, "evaluate", false, kBatch, cut);
  return plan;
}

// Every element of every rank's tensors against the definition.
void CheckEveryRank(const std::vector<int64_t>& cut, bool shuffle, const std::string& root) {
  const Plan plan = PlanOf(cut, shuffle);
  for (int rank = 0; rank < VolumeOf(cut) + 1; ++rank) {  // the last one holds nothing
    auto reader = ShardReader::Create(plan, "set", root, rank);
    ASSERT_TRUE(reader.ok()) << reader.status();
    for (int64_t epoch : {0, 1, 0}) {
      for (const auto& [program, first] : {std::pair<int, int64_t>{0, 0}, {0, 5}, {1, 10}, {2, 5}}) {
        const ProgramPlan& run = plan.program(program);
        auto fields = (*reader)->Read(run, epoch, first);
        ASSERT_TRUE(fields.ok()) << fields.status();
        ASSERT_EQ(fields->size(), 2u);
        std::vector<int64_t> order = Permutation(3, kPurposeShuffle, epoch, kSamples);
        for (int64_t i = 0; i < kSamples && !(shuffle && run.training()); ++i) order[i] = i;
        const Layout layout = *LayoutFromProto(run.value(0).layout());
        const Box box = layout.BoxOf(rank);
        const at::Tensor& image = fields->at("image");
        ASSERT_EQ(image.sizes().vec(), box.Shape());
        ASSERT_EQ(image.scalar_type(), at::kFloat);
        for (int64_t n = 0; n < box[0].size(); ++n)
          for (int64_t c = 0; c < box[1].size(); ++c)
            for (int64_t h = 0; h < box[2].size(); ++h)
              for (int64_t w = 0; w < box[3].size(); ++w) {
                const int64_t channel = box[1].lo + c;
                const double raw = Pixel(order[first + box[0].lo + n], channel, box[2].lo + h, box[3].lo + w);
                const double expected = (raw * 0.5 - (channel == 0 ? 1 : 2)) / (channel == 0 ? 4 : 0.25);
                ASSERT_EQ(image[n][c][h][w].item<float>(), static_cast<float>(expected));
              }
        const Layout labels = *LayoutFromProto(run.value(1).layout());
        const at::Tensor& label = fields->at("label");
        ASSERT_EQ(label.sizes().vec(), labels.LocalShape(rank));
        ASSERT_EQ(label.scalar_type(), at::kLong);
        for (int64_t n = 0; n < label.size(0); ++n) {
          ASSERT_EQ(label[n].item<int64_t>(), order[first + labels.BoxOf(rank)[0].lo + n] % 10);
        }
      }
    }
  }
}

TEST(ShardReaderTest, GivesEachRankItsBoxOfTheBatch) {
  for (bool gzip : {false, true}) {
    const std::string root = DataRoot(gzip);
    for (const std::vector<int64_t>& cut : std::vector<std::vector<int64_t>>{
             {1, 1, 1, 1}, {2, 1, 1, 1}, {1, 2, 2, 1}, {2, 1, 1, 2}, {1, 3, 1, 4}, {7, 1, 1, 1}}) {
      for (bool shuffle : {false, true}) CheckEveryRank(cut, shuffle, root);
    }
  }
}

TEST(ShardReaderTest, AnEpochSeesEverySampleOnce) {
  const Plan plan = PlanOf({1, 1, 1, 1}, /*shuffle=*/true);
  auto reader = ShardReader::Create(plan, "set", DataRoot(true), 0);
  ASSERT_TRUE(reader.ok()) << reader.status();
  std::multiset<float> seen;
  std::multiset<float> expected;
  for (const auto& [program, first] : {std::pair<int, int64_t>{0, 0}, {0, 5}, {1, 10}}) {
    auto fields = (*reader)->Read(plan.program(program), 4, first);
    ASSERT_TRUE(fields.ok()) << fields.status();
    const at::Tensor image = fields->at("image");
    for (int64_t n = 0; n < image.size(0); ++n) seen.insert(image[n][0][0][0].item<float>());
  }
  for (int64_t i = 0; i < kSamples; ++i) expected.insert(static_cast<float>((Pixel(i, 0, 0, 0) * 0.5 - 1) / 4));
  EXPECT_EQ(seen, expected);
}

TEST(ShardReaderTest, NamesTheDataSetAndFieldThatDoNotFit) {
  const std::string root = DataRoot(false);
  Plan plan = PlanOf({1, 1, 1, 1}, false);
  const auto message = [&](const Plan& changed) {
    return std::string(ShardReader::Create(changed, "set", root, 0).status().message());
  };
  auto reader = ShardReader::Create(plan, "set", root, 0);
  EXPECT_THAT(std::string((*reader)->Read(plan.program(0), 0, 7).status().message()),
              HasSubstr("a batch of 5 from sample 7; there are 11"));
  EXPECT_FALSE(ShardReader::Create(plan, "other", root, 0).ok());
  Plan sizes = plan;
  sizes.mutable_dataset(0)->set_samples(12);
  EXPECT_THAT(message(sizes), HasSubstr("11 samples in"));
  EXPECT_THAT(message(sizes), HasSubstr("planned for 12"));
  Plan limited = plan;
  limited.mutable_spec()->mutable_dataset(0)->set_limit(6);
  limited.mutable_dataset(0)->set_samples(6);
  EXPECT_EQ(message(limited), "");
  Plan means = plan;
  means.mutable_spec()->mutable_dataset(0)->mutable_field(0)->add_mean(1);
  EXPECT_THAT(message(means), HasSubstr("one for each of the 2 channels"));
  Plan outside = plan;
  outside.mutable_spec()->mutable_dataset(0)->mutable_field(0)->mutable_idx()->set_path(0, "../images");
  EXPECT_THAT(message(outside), HasSubstr("'..'"));
  Plan missing = plan;
  missing.mutable_spec()->mutable_dataset(0)->mutable_field(0)->mutable_idx()->set_path(0, "nothing");
  EXPECT_THAT(message(missing), HasSubstr("'nothing': no such file"));
}

// Volumes [1, 4, 6] with labels [4, 6] in NPY files, cut in both dims, the image read with the halo of a 3x3
// convolution.
class LabelledVolumes : public ::testing::Test {
 protected:
  static constexpr int64_t kVolumes = 3;

  LabelledVolumes() : image_(kVolumes * 24), label_(kVolumes * 24) {
    for (size_t i = 0; i < image_.size(); ++i) image_[i] = static_cast<double>(i);
    for (size_t i = 0; i < label_.size(); ++i) label_[i] = static_cast<double>(i % 3);
    plan_.mutable_spec()->set_seed(3);
    Dataset& set = *plan_.mutable_spec()->add_dataset();
    set.set_name("set");
    for (const std::string name : {"image", "label"}) {
      Field& field = *set.add_field();
      field.set_name(name);
      SetFile(field, "npy", "volumes_" + name);
      if (name == "image") field.add_shape(1);
      field.add_shape(4);
      field.add_shape(6);
    }
    set.mutable_field(1)->set_dtype("int64");
    DatasetSize& size = *plan_.add_dataset();
    size.set_name("set");
    size.set_samples(kVolumes);
    ProgramPlan& program = *plan_.add_program();
    program.set_name("train");
    program.set_training(true);
    program.set_dataset("set");
    program.set_batch(1);
    const Layout image = LayoutOf({1, 1, 4, 6}, DType::kFloat32, {1, 1, 2, 2});
    AddValue("image", image);
    AddValue("label", LayoutOf({1, 4, 6}, DType::kInt64, {1, 2, 2}));
    program.add_value()->set_name("logits");
    *program.mutable_value(2)->mutable_layout() = ToProto(LayoutOf({1, 3, 4, 6}, DType::kFloat32, {1, 1, 2, 2}));
    LossPlan& loss = *program.add_loss();
    loss.set_input(2);
    loss.set_target(1);
    OperatorPlan& read = *program.mutable_value(0)->mutable_read();
    *read.mutable_from() = *read.mutable_to() = ToProto(image);
    for (int dim : {2, 3}) *read.add_reading() = ToProto(dim, *Window::Create({.kernel = 3, .pad_lo = 1, .pad_hi = 1}));
  }
  void AddValue(const std::string& name, const Layout& layout) {
    ValuePlan& value = *plan_.mutable_program(0)->add_value();
    value.set_name(name);
    value.set_field(name);
    *value.mutable_layout() = ToProto(layout);
  }
  Field& field(int index) { return *plan_.mutable_spec()->mutable_dataset(0)->mutable_field(index); }

  // The warnings of the four ranks, and the first error, where they read every sample of `epochs` epochs.
  struct Outcome {
    std::vector<std::string> lines;
    std::string error;
    int64_t bytes = 0;
  };
  Outcome Read(int64_t epochs = 1) {
    WriteArray(testing::TempDir() + "/volumes_image", "npy", CellType::kFloat32, {kVolumes, 4, 6}, image_);
    WriteArray(testing::TempDir() + "/volumes_label", "npy", CellType::kFloat64, {kVolumes, 4, 6}, label_);
    Outcome outcome;
    for (int rank = 0; rank < 4; ++rank) {
      DataFolder data(testing::TempDir());
      data.warn = [&](const std::string& line) { outcome.lines.push_back(line); };
      auto reader = ShardReader::Create(plan_, "set", data, rank);
      if (!reader.ok()) return {{}, std::string(reader.status().message()), 0};
      for (int64_t epoch = 0; epoch < epochs; ++epoch) {
        for (int64_t first = 0; first < kVolumes; ++first) {
          auto read = (*reader)->Read(plan_.program(0), epoch, first);
          if (!read.ok() && outcome.error.empty()) outcome.error = std::string(read.status().message());
        }
      }
      outcome.bytes += (*reader)->bytes_read();
    }
    return outcome;
  }

  Plan plan_;
  std::vector<double> image_, label_;
};

TEST_F(LabelledVolumes, ReadsItsSlabAndItsHaloAndNothingElse) {
  const Outcome outcome = Read(/*epochs=*/2);
  EXPECT_EQ(outcome.error, "");
  EXPECT_TRUE(outcome.lines.empty());
  // Each rank reads (2 + 1) x (3 + 1) float32 cells of each image and 2 x 3 float64 ones of each label.
  EXPECT_EQ(outcome.bytes, 2 * kVolumes * 4 * (3 * 4 * 4 + 2 * 3 * 8));
}

TEST_F(LabelledVolumes, ReportsTheFirstValueThatIsNotFiniteOnceWithItsPosition) {
  image_[24 + 2 * 6 + 3] = std::nan("");  // in the halo of the three other ranks
  const Outcome outcome = Read(/*epochs=*/2);
  EXPECT_EQ(outcome.error, "");
  ASSERT_EQ(outcome.lines.size(), 1u);
  EXPECT_THAT(outcome.lines[0], HasSubstr("data set \"set\", field \"image\": sample 1, position [0, 2, 3]: nan"));
}

TEST_F(LabelledVolumes, RefusesLabelsThatAreNoClassOfTheLoss) {
  label_[2 * 24 + 3 * 6 + 5] = 3;
  EXPECT_EQ(Read().error,
            "data set \"set\", field \"label\": sample 2, position [3, 5]: the label is 3; the loss compares it with 3"
            " classes, so that 0 to 2 are allowed");
  label_[2 * 24 + 3 * 6 + 5] = -100;
  EXPECT_THAT(Read().error, HasSubstr("the label is -100"));
  plan_.mutable_program(0)->mutable_loss(0)->mutable_spec()->set_ignore_index(-100);
  EXPECT_EQ(Read().error, "");
  label_[7] = -1;
  EXPECT_THAT(Read().error, HasSubstr("0 to 2 are allowed, and -100, which it ignores"));
}

TEST_F(LabelledVolumes, RemapsLabels) {
  for (int64_t becomes : {0, 2}) field(1).add_remap(becomes);
  EXPECT_EQ(Read().error,
            "data set \"set\", field \"label\": sample 0, position [0, 2]: the label is 2; remap has entries"
            " for 0 to 1");
  field(1).add_remap(3);
  EXPECT_THAT(Read().error, HasSubstr("sample 0, position [0, 2]: the label is 3; the loss compares"));
  field(1).set_remap(2, 1);
  EXPECT_EQ(Read().error, "");
  label_[5] = -1;
  EXPECT_THAT(Read().error, HasSubstr("the label is -1; remap"));
}

TEST_F(LabelledVolumes, RefusesFractionsWhereTheTypeIsInt64) {
  label_[24 + 6] = 0.5;
  EXPECT_EQ(Read().error,
            "data set \"set\", field \"label\": sample 1, position [1, 0]: the value is 0.5; dtype \"int64\""
            " takes whole numbers up to 2^53");
  label_[24 + 6] = std::nan("");
  EXPECT_THAT(Read().error, HasSubstr("the value is nan"));
}

// An error of a batch that was read ahead comes when the batch is asked for, and as often as it is.
TEST_F(LabelledVolumes, ReportsAnErrorWhenItsBatchIsAskedFor) {
  label_[24] = 7;
  Read();
  auto reader = ShardReader::Create(plan_, "set", testing::TempDir(), 0);
  ASSERT_TRUE(reader.ok()) << reader.status();
  for (int round = 0; round < 2; ++round) {
    EXPECT_TRUE((*reader)->Read(plan_.program(0), round, 0).ok());
    EXPECT_THAT(std::string((*reader)->Read(plan_.program(0), round, 1).status().message()), HasSubstr("sample 1"));
    EXPECT_TRUE((*reader)->Read(plan_.program(0), round, 2).ok());
  }
}

TEST_F(LabelledVolumes, RefusesBlocksWhereTheFilesHaveChanged) {
  Dataset& set = *plan_.mutable_spec()->mutable_dataset(0);
  for (int i = 0; i < 2; ++i) set.mutable_blocks()->add_size(2);
  set.mutable_blocks()->set_per_epoch(kVolumes);
  EXPECT_THAT(Read().error, HasSubstr("a sample is 1x2x2; the plan's batch is 1x1x4x6"));
  for (ValuePlan& value : *plan_.mutable_program(0)->mutable_value()) {
    Layout layout = *LayoutFromProto(value.layout());
    std::vector<int64_t> shape = layout.shape();
    shape[shape.size() - 1] = shape[shape.size() - 2] = 2;
    *value.mutable_layout() = ToProto(*layout.WithShape(shape));
    value.clear_read();
  }
  EXPECT_EQ(Read().error, "");
  plan_.mutable_dataset(0)->set_in_files(kVolumes + 1);
  EXPECT_THAT(Read().error, HasSubstr("3 samples in volumes_image; the job was planned for 4"));
}

}  // namespace
}  // namespace adjoin
