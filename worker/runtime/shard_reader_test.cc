#include "worker/runtime/shard_reader.h"

#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "layers/plan/layout_proto.h"
#include "primitives/random/philox.h"
#include "worker/data/idx_test_files.h"

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
        const torch::Tensor& image = fields->at("image");
        ASSERT_EQ(image.sizes().vec(), box.Shape());
        ASSERT_EQ(image.scalar_type(), torch::kFloat32);
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
        const torch::Tensor& label = fields->at("label");
        ASSERT_EQ(label.sizes().vec(), labels.LocalShape(rank));
        ASSERT_EQ(label.scalar_type(), torch::kInt64);
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
    const torch::Tensor image = fields->at("image");
    for (int64_t n = 0; n < image.size(0); ++n) seen.insert(image[n][0][0][0].item<float>());
  }
  for (int64_t i = 0; i < kSamples; ++i) expected.insert(static_cast<float>((Pixel(i, 0, 0, 0) * 0.5 - 1) / 4));
  EXPECT_EQ(seen, expected);
}

TEST(ShardReaderTest, NamesWhatDoesNotFit) {
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

}  // namespace
}  // namespace adjoin
