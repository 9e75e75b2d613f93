// The numbers that EVALUATE reports, compared with counting over whole predictions one element at a time.
#include <algorithm>
#include <cmath>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/conv2d.h>
#include <ATen/ops/log_softmax.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/tensor.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/testing/test_seed.h"
#include "tests/predict/job_run.h"

namespace adjoin {
namespace {

using testing::HasSubstr;

constexpr int64_t kSamples = 5, kHeight = 6, kWidth = 10, kClasses = 4, kIgnored = 9;
const std::vector<double> kWeights = {1, 0.5, 2, 0.25};

constexpr char kJob[] = R"(
name: "measure" kind: EVALUATE ranks: RANKS seed: 1
layout { name: "grid" GRID }
OUT
layer { name: "classes" input: "image" x: "grid" Y conv { out_channels: 4 window { kernel: 3 pad_lo: 1 } } }
layer { name: "values" input: "image" x: "grid" conv { out_channels: 2 window { kernel: 1 } } }
loss { kind: "cross_entropy" input: "classes" target: "soft" class_weight: [1, 0.5, 2, 0.25] weight: 0.25 }
loss { kind: "cross_entropy" input: "classes" target: "label" ignore_index: 9 class_weight: [1, 0.5, 2, 0.25] }
loss { kind: "l1" input: "values" target: "two" weight: 0.5 }
dataset { name: "set"
  field { name: "image" npy { path: "images.npy" } shape: [3, 6, 10] }
  field { name: "label" npy { path: "labels.npy" } shape: [6, 10] dtype: "int64" }
  field { name: "soft" npy { path: "soft.npy" } shape: [4, 6, 10] }
  field { name: "two" npy { path: "two.npy" } shape: [2, 6, 10] } }
evaluate { dataset: "set" batch: 2 range: 3
  metric: ["loss", "accuracy", "top2", "dice", "iou", "confusion", "mse", "mae", "psnr"] }
weights { init_from: "w.safetensors" }
precision { compute: "float64" }
output_dir: "job"
)";

struct Cut {
  int ranks;
  std::string grid;
  std::string out;  // a layout of the classes
  std::string y;
};

const std::vector<Cut> kCuts = {
    {1, "partition: [1, 1, 1, 1]", "", ""},
    {2, "partition: [1, 1, 2, 1] cut { dim: 2 size: [1, 5] }", "", ""},
    {4, "partition: [1, 1, 2, 2] cut { dim: 2 size: [6, 0] } cut { dim: 3 size: [3, 7] }", "", ""},
    {4, "partition: [1, 1, 2, 2]", "layout { name: \"channels\" partition: [1, 2, 1, 2] }", "y: \"channels\""},
    {4, "mesh { size: 2 } mesh { size: 2 } sbp: [\"S(3)\", \"B\"]", "", ""},
};

struct Truth {
  double loss = 0, accuracy = 0, top2 = 0, dice = 0, iou = 0, mse = 0, mae = 0;
  int64_t correct = 0;
  std::vector<std::vector<int64_t>> confusion;
  std::vector<double> dice_per_class;
};

// Counts with loops over lists of numbers.
Truth CountOneByOne(const at::Tensor& scores, const at::Tensor& labels, const at::Tensor& values,
                    const at::Tensor& two) {
  Truth truth;
  truth.confusion.assign(kClasses, std::vector<int64_t>(kClasses));
  const auto score = scores.accessor<double, 4>();
  const auto label = labels.accessor<int64_t, 3>();
  double counted = 0, weighted = 0, weight = 0;
  for (int64_t n = 0; n < kSamples; ++n) {
    for (int64_t i = 0; i < kHeight; ++i) {
      for (int64_t j = 0; j < kWidth; ++j) {
        const int64_t t = label[n][i][j];
        if (t == kIgnored) continue;
        int64_t best = 0, larger = 0;
        double sum = 0;
        for (int64_t c = 0; c < kClasses; ++c) {
          if (score[n][c][i][j] > score[n][best][i][j]) best = c;
          if (score[n][c][i][j] > score[n][t][i][j]) ++larger;
          sum += std::exp(score[n][c][i][j]);
        }
        ++counted;
        ++truth.confusion[t][best];
        truth.correct += best == t ? 1 : 0;
        truth.top2 += larger < 2 ? 1 : 0;
        weighted += kWeights[t] * (std::log(sum) - score[n][t][i][j]);
        weight += kWeights[t];
      }
    }
  }
  truth.accuracy = static_cast<double>(truth.correct) / counted;
  truth.top2 /= counted;
  const at::Tensor error = values - two;
  truth.mse = error.square().mean().item<double>();
  truth.mae = error.abs().mean().item<double>();
  truth.loss = weighted / weight + 0.5 * truth.mae;
  for (int64_t c = 0; c < kClasses; ++c) {
    double row = 0, column = 0;
    for (int64_t k = 0; k < kClasses; ++k) {
      row += static_cast<double>(truth.confusion[c][k]);
      column += static_cast<double>(truth.confusion[k][c]);
    }
    const double both = static_cast<double>(truth.confusion[c][c]);
    truth.dice_per_class.push_back(2 * both / (row + column));
    truth.dice += truth.dice_per_class.back() / kClasses;
    truth.iou += both / (row + column - both) / kClasses;
  }
  return truth;
}

class EvaluationTest : public testing::Test {
 protected:
  void SetUp() override {
    at::manual_seed(TestSeed(29));
    images_ = at::randn({kSamples, 3, kHeight, kWidth}, at::kDouble);
    labels_ = at::randint(0, kClasses, {kSamples, kHeight, kWidth}, at::kLong);
    labels_.masked_fill_(at::rand({kSamples, kHeight, kWidth}) < 0.3, kIgnored);
    labels_[4] = kIgnored;  // in the last batch no target counts
    two_ = at::randn({kSamples, 2, kHeight, kWidth}, at::kDouble);
    folder_.WriteArray("data/images.npy", images_);
    folder_.WriteArray("data/labels.npy", labels_);
    folder_.WriteArray("data/two.npy", two_);
    soft_ = at::softmax(at::randn({kSamples, kClasses, kHeight, kWidth}, at::kDouble), 1);
    folder_.WriteArray("data/soft.npy", soft_);
    const absl::StatusOr<Plan> plan = PlanOfText(SpecOf(kCuts[0]), {{"set", kSamples}});
    ASSERT_TRUE(plan.ok()) << plan.status();
    model_ = RandomModel(*plan);
    ASSERT_TRUE(folder_.WriteModel("data/w.safetensors", model_).ok());
    scores_ = at::conv2d(images_, model_["classes.weight"], model_["classes.bias"], 1, 1);
    values_ = at::conv2d(images_, model_["values.weight"], model_["values.bias"]);
  }
  static std::string SpecOf(const Cut& cut) {
    return absl::StrReplaceAll(
        kJob, {{"RANKS", absl::StrCat(cut.ranks)}, {"GRID", cut.grid}, {"OUT", cut.out}, {" Y ", " " + cut.y + " "}});
  }
  nlohmann::json EvaluationLine() const {
    std::ifstream file(folder_.Path("output/job/metrics.jsonl"));
    for (std::string line; std::getline(file, line);) {
      nlohmann::json parsed = nlohmann::json::parse(line);
      if (parsed["type"] == "evaluation") return parsed;
    }
    return nullptr;
  }

  const JobFolder folder_{"set"};
  at::Tensor images_, labels_, two_, soft_, scores_, values_;
  Tensors model_;
};

TEST_F(EvaluationTest, EveryCutReportsTheSameAsCountingOneByOne) {
  Truth truth = CountOneByOne(scores_, labels_, values_, two_);
  // Probabilities: the mean over all pixels.
  const at::Tensor weighted = soft_ * at::tensor(kWeights, at::kDouble).reshape({1, kClasses, 1, 1});
  truth.loss += 0.25 * -(at::log_softmax(scores_, 1) * weighted).sum(1).mean().item<double>();
  for (const Cut& cut : kCuts) {
    SCOPED_TRACE(absl::StrCat(cut.ranks, " ranks, ", cut.grid, cut.out));
    const auto run = RunJob(SpecOf(cut), {{"set", kSamples}}, folder_);
    ASSERT_TRUE(run.ok()) << run.status();
    const nlohmann::json line = EvaluationLine();
    ASSERT_FALSE(line.is_null());
    EXPECT_EQ(line["samples"], kSamples);
    EXPECT_EQ(line["correct"], truth.correct);
    EXPECT_EQ(line["accuracy"], truth.accuracy) << "exact";
    EXPECT_EQ(line["top2"], truth.top2);
    EXPECT_EQ(line["confusion"].get<std::vector<std::vector<int64_t>>>(), truth.confusion);
    EXPECT_NEAR(line["dice"].get<double>(), truth.dice, 1e-12);
    EXPECT_NEAR(line["iou"].get<double>(), truth.iou, 1e-12);
    for (int64_t c = 0; c < kClasses; ++c) {
      EXPECT_NEAR(line["dice_per_class"][c].get<double>(), truth.dice_per_class[c], 1e-12);
    }
    EXPECT_NEAR(line["mse"].get<double>(), truth.mse, 1e-12);
    EXPECT_NEAR(line["mae"].get<double>(), truth.mae, 1e-12);
    EXPECT_NEAR(line["psnr"].get<double>(), 10 * std::log10(9 / truth.mse), 1e-10);
    EXPECT_NEAR(line["loss"].get<double>(), truth.loss, 1e-12) << "weighted by what counts, not by samples";
    for (const SessionResult& result : *run) {
      EXPECT_EQ(result.final.metric().at("accuracy"), truth.accuracy);
      EXPECT_NEAR(result.final.metric().at("dice[2]"), truth.dice_per_class[2], 1e-12);
      EXPECT_EQ(result.final.metric().count("confusion"), 0u);
    }
  }
}

TEST_F(EvaluationTest, NeedsWeights) {
  const std::string spec = absl::StrReplaceAll(SpecOf(kCuts[0]), {{"weights { init_from: \"w.safetensors\" }", ""}});
  EXPECT_THAT(std::string(PlanOfText(spec, {}).status().message()), HasSubstr("weights is missing"));
}

TEST_F(EvaluationTest, TakesWeightsFromAnotherJobsOutput) {
  ASSERT_TRUE(folder_.WriteModel("output/model.safetensors", model_).ok());
  const std::string spec =
      absl::StrReplaceAll(SpecOf(kCuts[0]), {{"init_from: \"w.safetensors\"", "from_output: \"model.safetensors\""}});
  const auto run = RunJob(spec, {{"set", kSamples}}, folder_);
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_EQ(EvaluationLine()["correct"], CountOneByOne(scores_, labels_, values_, two_).correct);
}

}  // namespace
}  // namespace adjoin
