// Volumes of different extents, predicted and measured one at a time, compared with plain LibTorch in a loop over them.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/conv3d.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/max_pool3d.h>
#include <ATen/ops/mse_loss.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/upsample_nearest3d.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "base/status_macros.h"
#include "base/testing/test_seed.h"
#include "layers/builtin/builtin_rules.h"
#include "planner/plan/file_halos.h"
#include "planner/plan/planner.h"
#include "planner/spec/spec_parser.h"
#include "tests/predict/job_run.h"
#include "worker/samples/sample_extents.h"

namespace adjoin {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using Shape = std::vector<int64_t>;

constexpr int64_t kClasses = 3, kIgnored = 9;
// The first ones come again after others.
const std::vector<Shape> kExtents = {{12, 10, 14}, {8, 12, 10}, {12, 10, 14}, {16, 8, 12}, {8, 12, 10}};

// A U-Net that takes even extents. HEAD, RANKS, GRID, DATA and REST are replaced.
constexpr char kNetwork[] = R"(
name: "volumes" HEAD ranks: RANKS seed: 1
layout { name: "grid" GRID }
layer { name: "down" input: "volume" x: "grid" conv { out_channels: 4 window { kernel: 3 pad_lo: 1 } } }
layer { name: "down.relu" activation { fn: "relu" } }
layer { name: "pool" pool { mode: "max" window { kernel: 2 } } }
layer { name: "bottom" conv { out_channels: 4 window { kernel: 3 pad_lo: 1 } } }
layer { name: "up" upsample { mode: "nearest" scale: 2 } }
layer { name: "skip" input: ["down.relu", "up"] concat { arg: 1 } }
layer { name: "head" conv { out_channels: 3 window { kernel: 1 } } }
REST
precision { compute: "float64" }
weights { init_from: "w.safetensors" }
output_dir: "job"
)";
constexpr char kPredict[] = R"(
dataset { name: "set" field { name: "volume" SOURCE shape: [1, -1, -1, -1] normalize: "zscore" } }
predict { dataset: "set" input: ["head", "bottom"] format: "FORMAT" CLASSES }
)";
constexpr char kFields[] = R"(
  field { name: "volume" npy { path: [IMAGES] } shape: [1, -1, -1, -1] normalize: "zscore" }
  field { name: "label" npy { path: [LABELS] } shape: [-1, -1, -1] dtype: "int64" }
  field { name: "wanted" npy { path: [WANTED] } shape: [3, -1, -1, -1] }
  field { name: "small" npy { path: [SMALL] } shape: [4, -2, -2, -2] }
)";
constexpr char kMeasured[] = R"(
loss { kind: "cross_entropy" input: "head" target: "label" ignore_index: 9 class_weight: [1, 2, 0.5] }
loss { kind: "mse" input: "head" target: "wanted" weight: 0.5 }
loss { kind: "mse" input: "bottom" target: "small" weight: 0.25 }
dataset { name: "set" FIELDS }
)";

struct Cut {
  int ranks;
  std::string grid;
};
const std::vector<Cut> kCuts = {{1, "partition: [1, 1, 1, 1, 1]"},
                                {2, "partition: [1, 1, 1, 2, 1]"},
                                {4, "partition: [1, 1, 2, 1, 2]"},
                                {2, "partition: [2, 1, 1, 1, 1]"}};  // one of them has no part of one sample

std::string Paths(const std::string& kind, const std::string& extension = ".npy") {
  std::vector<std::string> paths;
  for (size_t i = 0; i < kExtents.size(); ++i) paths.push_back(absl::StrCat("\"", kind, i, extension, "\""));
  return absl::StrJoin(paths, ", ");
}

std::string SpecOf(const Cut& cut, const std::string& head, const std::string& rest) {
  std::string spec = absl::StrReplaceAll(kNetwork, {{"REST", rest}});
  spec = absl::StrReplaceAll(spec, {{"FIELDS", kFields}});
  return absl::StrReplaceAll(spec, {{"HEAD", head},
                                    {"RANKS", absl::StrCat(cut.ranks)},
                                    {"GRID", cut.grid},
                                    {"IMAGES", Paths("image")},
                                    {"LABELS", Paths("label")},
                                    {"WANTED", Paths("wanted")},
                                    {"SMALL", Paths("small")}});
}

std::string PredictionOf(const Cut& cut, const std::string& format = "npy", const std::string& classes = "") {
  const std::string extension = format == "nifti" ? ".nii" : ".npy";
  return absl::StrReplaceAll(
      SpecOf(cut, "kind: PREDICT", kPredict),
      {{"SOURCE", absl::StrCat(format == "nifti" ? "nifti" : "npy", " { path: [", Paths("image", extension), "] }")},
       {"FORMAT", format},
       {"CLASSES", classes}});
}

// Plans as the coordinator does once a worker has seen the files.
absl::StatusOr<Plan> PlanOf(const std::string& text, const std::vector<Shape>& volumes = kExtents) {
  ADJOIN_ASSIGN_OR_RETURN(const ParsedSpec parsed, ParseSpec(text, "job"));
  DatasetSizes sizes;
  for (const Dataset& dataset : parsed.spec.dataset()) {
    SampleExtents extents(dataset);
    for (size_t i = 0; i < volumes.size(); ++i) {
      ADJOIN_RETURN_IF_ERROR(extents.Add("volume", absl::StrCat(i), volumes[i]));
    }
    sizes[dataset.name()] = {static_cast<int64_t>(volumes.size()), extents.Hash()};
  }
  ADJOIN_ASSIGN_OR_RETURN(Plan plan, Planner::Build(parsed.spec, sizes, BuiltinLayerRules(), &parsed.locations));
  ReadHalosFromFiles(&plan);
  return plan;
}

double Largest(const at::Tensor& x) { return x.abs().max().item<double>(); }

class WholeVolumesTest : public testing::Test {
 protected:
  void SetUp() override {
    at::manual_seed(TestSeed(43));
    for (size_t i = 0; i < kExtents.size(); ++i) {
      const Shape& extents = kExtents[i];
      images_.push_back(at::randn(extents, at::kDouble) * 3 + static_cast<double>(i));
      labels_.push_back(at::randint(0, kClasses, extents, at::kLong).masked_fill_(at::rand(extents) < 0.3, kIgnored));
      wanted_.push_back(at::randn({kClasses, extents[0], extents[1], extents[2]}, at::kDouble));
      folder_.WriteArray(absl::StrCat("data/image", i, ".npy"), images_[i]);
      folder_.WriteArray(absl::StrCat("data/image", i, ".nii"), images_[i]);
      folder_.WriteArray(absl::StrCat("data/label", i, ".npy"), labels_[i]);
      folder_.WriteArray(absl::StrCat("data/wanted", i, ".npy"), wanted_[i]);
      small_.push_back(at::randn({4, extents[0] / 2, extents[1] / 2, extents[2] / 2}, at::kDouble));
      folder_.WriteArray(absl::StrCat("data/small", i, ".npy"), small_[i]);
    }
    const auto plan = PlanOf(PredictionOf(kCuts[0]));
    ASSERT_TRUE(plan.ok()) << plan.status();
    model_ = RandomModel(*plan);
    ASSERT_TRUE(folder_.WriteModel("data/w.safetensors", model_).ok());
  }

  // The network in plain LibTorch on one whole volume: head, bottom.
  std::pair<at::Tensor, at::Tensor> Serial(size_t volume) const {
    const at::Tensor& image = images_[volume];
    const at::Tensor x = ((image - image.mean()) / image.std(/*unbiased=*/false)).unsqueeze(0).unsqueeze(0);
    const auto conv = [&](const at::Tensor& in, const std::string& name, int64_t pad) {
      return at::conv3d(in, model_.at(name + ".weight"), model_.at(name + ".bias"), 1, pad);
    };
    const at::Tensor down = at::relu(conv(x, "down", 1));
    const at::Tensor bottom = conv(at::max_pool3d(down, 2), "bottom", 1);
    const at::Tensor up = at::upsample_nearest3d(bottom, c10::nullopt, std::vector<double>{2, 2, 2});
    return {conv(at::cat({down, up}, 1), "head", 0), bottom};
  }

  // The mean over the volumes of each one's own loss.
  double SerialLoss() const {
    double sum = 0;
    for (size_t i = 0; i < kExtents.size(); ++i) {
      const auto [head, bottom] = Serial(i);
      const at::Tensor weight = at::empty({kClasses}, at::kDouble);
      weight[0] = 1, weight[1] = 2, weight[2] = 0.5;
      sum += at::cross_entropy_loss(head, labels_[i].unsqueeze(0), weight, /*reduction=*/1, kIgnored).item<double>() +
             0.5 * at::mse_loss(head, wanted_[i].unsqueeze(0)).item<double>() +
             0.25 * at::mse_loss(bottom, small_[i].unsqueeze(0)).item<double>();
    }
    return sum / static_cast<double>(kExtents.size());
  }

  absl::StatusOr<std::vector<SessionResult>> Run(const std::string& spec,
                                                 const std::vector<Shape>& volumes = kExtents) {
    std::filesystem::remove_all(folder_.Path("output/job"));
    ADJOIN_ASSIGN_OR_RETURN(const Plan plan, PlanOf(spec, volumes));
    return RunPlan(plan, folder_);
  }

  std::vector<nlohmann::json> Lines(const std::string& type) const {
    std::ifstream file(folder_.Path("output/job/metrics.jsonl"));
    std::vector<nlohmann::json> found;
    for (std::string line; std::getline(file, line);) {
      nlohmann::json parsed = nlohmann::json::parse(line);
      if (parsed["type"] == type) found.push_back(parsed);
    }
    return found;
  }

  const JobFolder folder_{"volumes"};
  std::vector<at::Tensor> images_, labels_, wanted_, small_;  // `small_` is half as fine
  Tensors model_;
};

TEST_F(WholeVolumesTest, EachIsPredictedAsLibTorchDoesWithOneFileForEach) {
  for (const Cut& cut : kCuts) {
    for (const std::string format : {"npy", "hdf5", "nifti"}) {
      SCOPED_TRACE(absl::StrCat(cut.ranks, " ranks, ", format));
      const auto run = Run(PredictionOf(cut, format));
      ASSERT_TRUE(run.ok()) << run.status();
      const std::string extension = format == "npy" ? ".npy" : format == "hdf5" ? ".h5" : ".nii";
      std::vector<std::string> names = {"metrics.jsonl"};
      for (size_t i = 0; i < kExtents.size(); ++i) {
        const auto [head, bottom] = Serial(i);
        const std::vector<std::pair<std::string, at::Tensor>> outputs = {{"head", head}, {"bottom", bottom}};
        for (const auto& [layer, serial] : outputs) {
          names.push_back(absl::StrCat(layer, "-", i, extension));
          const auto written = folder_.ReadArray("output/job/" + names.back());
          ASSERT_TRUE(written.ok()) << written.status();
          ASSERT_EQ(written->sizes(), serial[0].sizes()) << names.back();
          EXPECT_LT(Largest(*written - serial[0]), 1e-11) << names.back();
        }
      }
      EXPECT_THAT((*run)[0].artifacts, testing::ElementsAreArray(names)) << "in the order of the samples";
      EXPECT_EQ((*run)[0].final.total_steps(), kExtents.size());
    }
  }
}

TEST_F(WholeVolumesTest, ClassesHaveNoChannels) {
  const auto run = Run(PredictionOf(kCuts[2], "nifti", "classes: true"));
  ASSERT_TRUE(run.ok()) << run.status();
  for (size_t i = 0; i < kExtents.size(); ++i) {
    const auto written = folder_.ReadArray(absl::StrCat("output/job/head-", i, ".nii"));
    ASSERT_TRUE(written.ok()) << written.status();
    EXPECT_TRUE(at::equal(*written, Serial(i).first.argmax(1)[0].to(at::kDouble))) << i;
  }
}

TEST_F(WholeVolumesTest, TheFirstFilesAreTheFirstSamplesWithALimit) {
  const std::string spec = absl::StrReplaceAll(PredictionOf(kCuts[1]),
                                               {{"normalize: \"zscore\" } }", "normalize: \"zscore\" } limit: 2 }"}});
  const auto run = Run(spec);
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_THAT((*run)[0].artifacts,
              ElementsAre("metrics.jsonl", "head-0.npy", "bottom-0.npy", "head-1.npy", "bottom-1.npy"));
  EXPECT_LT(Largest(*folder_.ReadArray("output/job/head-1.npy") - Serial(1).first[0]), 1e-11);
}

TEST_F(WholeVolumesTest, TheLossIsTheMeanOverVolumesAndCountsAreOverAllCells) {
  int64_t counted = 0, correct = 0;
  double squares = 0, cells = 0;
  for (size_t i = 0; i < kExtents.size(); ++i) {
    const at::Tensor head = Serial(i).first[0];
    const at::Tensor counts = labels_[i] != kIgnored;
    counted += counts.sum().item<int64_t>();
    correct += (counts & (head.argmax(0) == labels_[i])).sum().item<int64_t>();
    squares += (head - wanted_[i]).square().sum().item<double>();
    cells += static_cast<double>(head.numel());
  }
  const std::string evaluate =
      absl::StrCat(kMeasured, "evaluate { dataset: \"set\" metric: [\"loss\", \"accuracy\", \"mse\"] }");
  for (const Cut& cut : kCuts) {
    SCOPED_TRACE(cut.ranks);
    const auto run = Run(SpecOf(cut, "kind: EVALUATE", evaluate));
    ASSERT_TRUE(run.ok()) << run.status();
    const auto lines = Lines("evaluation");
    ASSERT_EQ(lines.size(), 1u);
    EXPECT_EQ(lines[0]["samples"], kExtents.size());
    EXPECT_EQ(lines[0]["correct"], correct);
    EXPECT_EQ(lines[0]["accuracy"], static_cast<double>(correct) / static_cast<double>(counted));
    EXPECT_NEAR(lines[0]["mse"].get<double>(), squares / cells, 1e-12);
    EXPECT_NEAR(lines[0]["loss"].get<double>(), SerialLoss(), 1e-12);
    for (const SessionResult& result : *run) EXPECT_NEAR(result.final.metric().at("loss"), SerialLoss(), 1e-12);
  }
}

// Training takes blocks, validation and the evaluation after it whole volumes; the weights hardly move.
TEST_F(WholeVolumesTest, TrainingOnBlocksValidatesOnWholeVolumes) {
  constexpr char kTrain[] = R"(
dataset { name: "blocks" FIELDS blocks { size: [8, 8, 8] per_epoch: 4 } }
train { dataset: "blocks" batch: 2 epochs: 2 optimizer { sgd { lr: 1e-30 } } validate_on: "set" }
evaluate { dataset: "set" metric: "loss" }
)";
  for (const Cut& cut : kCuts) {
    SCOPED_TRACE(cut.ranks);
    const auto run = Run(SpecOf(cut, "kind: TRAIN", absl::StrCat(kMeasured, kTrain)));
    ASSERT_TRUE(run.ok()) << run.status();
    const auto validations = Lines("validation"), evaluations = Lines("evaluation");
    ASSERT_EQ(validations.size(), 2u);
    ASSERT_EQ(evaluations.size(), 1u);
    for (const auto& line : {validations[0], validations[1], evaluations[0]}) {
      EXPECT_EQ(line["samples"], kExtents.size());
      EXPECT_NEAR(line["loss"].get<double>(), SerialLoss(), 1e-12);
    }
  }
}

TEST_F(WholeVolumesTest, ExtentsThatTheNetworkDoesNotTakeNameTheFile) {
  std::vector<Shape> volumes = kExtents;
  volumes[3] = {16, 7, 12};
  folder_.WriteArray("data/image3.npy", at::randn(volumes[3], at::kDouble));
  for (const Cut& cut : kCuts) {
    EXPECT_THAT(std::string(Run(PredictionOf(cut), volumes).status().message()),
                AllOf(HasSubstr("image3.npy has the extents 16x7x12, which the network does not take: "),
                      HasSubstr("\"skip\"")));
  }
}

TEST_F(WholeVolumesTest, FilesThatHaveChangedEndTheJob) {
  folder_.WriteArray("data/image3.npy", at::randn({8, 8, 8}, at::kDouble));
  EXPECT_THAT(std::string(Run(PredictionOf(kCuts[1])).status().message()), HasSubstr("other extents than those"));
}

}  // namespace
}  // namespace adjoin
