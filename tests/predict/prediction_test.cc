// Prediction over partitioned volumes, compared with plain LibTorch on whole ones and with one rank.
#include <algorithm>
#include <cmath>
#include <cstring>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/batch_norm.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/conv3d.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/leaky_relu.h>
#include <ATen/ops/max_pool3d.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/upsample_trilinear3d.h>
#include <ATen/ops/zeros.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/testing/test_seed.h"
#include "tests/predict/job_run.h"

namespace adjoin {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr int64_t kSamples = 3;  // a batch of 2 and one of 1
const std::vector<int64_t> kVolume = {12, 14, 10};

// A 3-D U-Net. GRID, RANKS, TYPE, FORMAT and the like are replaced.
constexpr char kUnet[] = R"(
name: "unet" kind: PREDICT ranks: RANKS seed: 1
layout { name: "grid" GRID }
layer { name: "down.conv" input: "volume" x: "grid" conv { out_channels: 4 window { kernel: 3 pad_lo: 1 } } }
layer { name: "down.norm" norm { kind: "batch" } }
layer { name: "down.relu" activation { fn: "relu" } }
layer { name: "pool" pool { mode: "max" window { kernel: 2 } } }
layer { name: "bottom.conv" conv { out_channels: 8 window { kernel: 5 pad_lo: 2 } } }
layer { name: "bottom.relu" activation { fn: "leaky_relu" } }
layer { name: "up" upsample { mode: "trilinear" scale: 2 } }
layer { name: "skip" input: ["down.relu", "up"] concat { arg: 1 } }
layer { name: "left.conv" conv { out_channels: 4 window { kernel: 3 pad_lo: 1 } } }
layer { name: "left.relu" activation { fn: "relu" } }
layer { name: "head" conv { out_channels: 3 window { kernel: 1 } } }
dataset { name: "set" field { name: "volume" npy { path: "volumes.npy" } shape: [1, 12, 14, 10] mean: 0.25 std: 2 } }
predict { dataset: "set" input: ["head", "bottom.relu"] format: "FORMAT" batch: 2 CLASSES }
weights { init_from: "w.safetensors" }
precision { compute: "TYPE" }
output_dir: "job"
)";

struct Variant {
  int ranks = 1;
  std::string grid = "partition: [1, 1, 1, 1, 1]";
  std::string type = "float64";
  std::string format = "npy";
  std::string classes = "";
};

const Variant kFour = {4, "partition: [1, 1, 2, 2, 1] cut { dim: 2 size: [5, 7] } cut { dim: 3 size: [9, 5] }"};

std::string SpecOf(const Variant& variant) {
  return absl::StrReplaceAll(kUnet, {{"RANKS", absl::StrCat(variant.ranks)},
                                     {"GRID", variant.grid},
                                     {"TYPE", variant.type},
                                     {"FORMAT", variant.format},
                                     {"CLASSES", variant.classes}});
}

// The U-Net in plain LibTorch, in float64.
std::pair<at::Tensor, at::Tensor> SerialUnet(const at::Tensor& volumes, const Tensors& w) {
  const at::Tensor x = (volumes - 0.25) / 2;
  const auto conv = [&](const at::Tensor& in, const std::string& name, int64_t pad) {
    return at::conv3d(in, w.at(name + ".weight"), w.at(name + ".bias"), 1, pad);
  };
  const at::Tensor down = at::relu(at::batch_norm(
      conv(x, "down.conv", 1), w.at("down.norm.weight"), w.at("down.norm.bias"), w.at("down.norm.running_mean"),
      w.at("down.norm.running_var"), /*training=*/false, 0.1, 1e-5, /*cudnn_enabled=*/false));
  const at::Tensor bottom = at::leaky_relu(conv(at::max_pool3d(down, 2), "bottom.conv", 2));
  const at::Tensor up = at::upsample_trilinear3d(bottom, /*output_size=*/c10::nullopt, /*align_corners=*/false,
                                                 std::vector<double>{2, 2, 2});
  const at::Tensor left = at::relu(conv(at::cat({down, up}, 1), "left.conv", 1));
  return {conv(left, "head", 0), bottom};
}

double Largest(const at::Tensor& x) { return x.abs().max().item<double>(); }

// The cells beside the cuts of the four ranks.
at::Tensor AtCuts(const at::Tensor& x) {
  return at::cat({x.narrow(2, 3, 4).reshape({-1}), x.narrow(3, 7, 4).reshape({-1})});
}

class PredictionTest : public testing::Test {
 protected:
  void SetUp() override {
    at::manual_seed(TestSeed(17));
    volumes_ = at::randn({kSamples, 1, kVolume[0], kVolume[1], kVolume[2]}, at::kDouble);
  }

  // Writes the data and random weights of the variant's type; `model_` has them in float64.
  void Prepare(const JobFolder& folder, const Variant& variant) {
    const absl::StatusOr<Plan> plan = PlanOfText(SpecOf(variant), {{"set", kSamples}});
    ASSERT_TRUE(plan.ok()) << plan.status();
    folder.WriteArray("data/volumes.npy", volumes_);
    if (model_.empty()) model_ = RandomModel(*plan);
    const absl::Status written = folder.WriteModel("data/w.safetensors", model_);
    ASSERT_TRUE(written.ok()) << written;
    for (auto& entry : model_) {
      if (entry.second.is_floating_point()) entry.second = entry.second.to(at::kDouble);
    }
  }

  // One layer's output over all samples.
  at::Tensor Run(const Variant& variant, const std::string& layer, std::vector<SessionResult>* results = nullptr) {
    const JobFolder folder(absl::StrCat(variant.ranks, variant.type, variant.format));
    Prepare(folder, variant);
    const auto run = RunJob(SpecOf(variant), {{"set", kSamples}}, folder);
    EXPECT_TRUE(run.ok()) << run.status();
    if (!run.ok()) return at::zeros({1});
    if (results != nullptr) *results = *run;
    const auto values = folder.ReadArray(absl::StrCat("output/job/", layer, variant.format == "hdf5" ? ".h5" : ".npy"));
    EXPECT_TRUE(values.ok()) << values.status();
    return values.ok() ? *values : at::zeros({1});
  }

  at::Tensor volumes_;
  Tensors model_;
};

TEST_F(PredictionTest, FourRanksWriteWhatLibTorchComputesOnTheWholeVolume) {
  std::vector<SessionResult> results;
  const at::Tensor head = Run(kFour, "head", &results);
  ASSERT_EQ(results.size(), 4u);
  EXPECT_THAT(results[0].artifacts, ElementsAre("metrics.jsonl", "head.npy", "bottom.relu.npy"));
  EXPECT_TRUE(results[1].artifacts.empty());
  EXPECT_EQ(results[0].final.total_steps(), 2u);
  const auto [serial, bottom] = SerialUnet(volumes_, model_);
  ASSERT_EQ(head.sizes(), serial.sizes());
  EXPECT_LT(Largest(head - serial), 1e-10);
  EXPECT_LT(Largest(AtCuts(head - serial)), 1e-10);
  EXPECT_LT(Largest(Run({}, "head") - serial), 1e-10);
  EXPECT_LT(Largest(Run(kFour, "bottom.relu") - bottom), 1e-10) << "a value that later layers read is written, too";
}

TEST_F(PredictionTest, InFloat32OneAndFourRanksAgreeAlsoAtTheCuts) {
  Variant one, four = kFour;
  one.type = four.type = "float32";
  volumes_ = volumes_.to(at::kFloat).to(at::kDouble);
  const at::Tensor whole = Run(one, "head");
  const at::Tensor cut = Run(four, "head");
  const double scale = std::max(1.0, Largest(whole));
  EXPECT_LE(Largest(cut - whole), 1e-6 * scale);
  const double at_cuts = Largest(AtCuts(cut - whole));
  EXPECT_LE(at_cuts, 2 * Largest(cut - whole) + 1e-12);
  EXPECT_LE(AtCuts(cut - whole).abs().mean().item<double>(), 3 * (cut - whole).abs().mean().item<double>() + 1e-9)
      << "no seam: errors beside the cuts are like those elsewhere";
}

TEST_F(PredictionTest, Hdf5HoldsTheSame) {
  Variant hdf5 = kFour;
  hdf5.format = "hdf5";
  const at::Tensor npy = Run(kFour, "head");
  EXPECT_TRUE(at::equal(Run(hdf5, "head"), npy));
}

TEST_F(PredictionTest, ClassesAreTheLargestChannel) {
  Variant classes = kFour;
  classes.classes = "classes: true";
  const at::Tensor map = Run(classes, "head");
  const at::Tensor serial = SerialUnet(volumes_, model_).first;
  EXPECT_TRUE(at::equal(map, serial.argmax(1).to(at::kDouble)));
}

// These layers do the same arithmetic for each output, however they are cut.
TEST_F(PredictionTest, AgreesBitForBitWhereTheOperatorsAllowIt) {
  constexpr char kJob[] = R"(
name: "bits" kind: PREDICT ranks: RANKS seed: 1
layout { name: "grid" GRID }
layer { name: "pool" input: "volume" x: "grid" pool { mode: "max" window { kernel: 3 stride: 1 pad_lo: 1 } } }
layer { name: "scale" norm { kind: "batch" } }
layer { name: "tanh" activation { fn: "relu" } }
layer { name: "sum" input: ["tanh", "pool"] add {} }
layer { name: "up" upsample { mode: "nearest" scale: [2, 1, 1] } }
dataset { name: "set" field { name: "volume" npy { path: "volumes.npy" } shape: [1, 12, 14, 10] } }
predict { dataset: "set" input: "up" format: "npy" }
weights { init_from: "w.safetensors" }
output_dir: "job"
)";
  std::vector<at::Tensor> results;
  for (const Variant& variant : {Variant(), kFour}) {
    const std::string spec =
        absl::StrReplaceAll(kJob, {{"RANKS", absl::StrCat(variant.ranks)}, {"GRID", variant.grid}});
    const JobFolder folder(absl::StrCat(variant.ranks));
    folder.WriteArray("data/volumes.npy", volumes_);
    const absl::StatusOr<Plan> plan = PlanOfText(spec, {{"set", kSamples}});
    ASSERT_TRUE(plan.ok()) << plan.status();
    if (model_.empty()) model_ = RandomModel(*plan);
    ASSERT_TRUE(folder.WriteModel("data/w.safetensors", model_).ok());
    const auto run = RunJob(spec, {{"set", kSamples}}, folder);
    ASSERT_TRUE(run.ok()) << run.status();
    results.push_back(folder.ReadArray("output/job/up.npy").value());
  }
  EXPECT_TRUE(at::equal(results[0], results[1]));
}

std::string NiftiSpec(const Variant& variant) {
  return absl::StrReplaceAll(SpecOf(variant),
                             {{"npy { path: \"volumes.npy\" }", "nifti { path: [\"a.nii\", \"b.nii\", \"c.nii\"] }"}});
}

// One NIfTI file for each sample, with the affine of its input.
TEST_F(PredictionTest, NiftiKeepsTheHeaderOfEachInput) {
  Variant nifti = kFour;
  nifti.format = "nifti";
  const JobFolder folder("nifti");
  Prepare(folder, nifti);
  const std::string names[] = {"a", "b", "c"};
  std::vector<std::string> headers;
  for (int64_t i = 0; i < kSamples; ++i) {
    const std::string path = absl::StrCat("data/", names[i], ".nii");
    folder.WriteArray(path, volumes_[i][0]);
    std::string bytes = folder.Bytes(path);
    const float srow[4] = {-2.5f + static_cast<float>(i), 0.125f, 0, 90};
    const int16_t sform = 1;
    std::memcpy(&bytes[280], srow, sizeof(srow));
    std::memcpy(&bytes[254], &sform, sizeof(sform));
    headers.push_back(bytes.substr(0, 348));
    folder.WriteArray(path, volumes_[i][0], headers.back());
  }
  std::vector<std::string> log;
  const auto run = RunJob(NiftiSpec(nifti), {{"set", kSamples}}, folder, /*epoch=*/4, &log);
  ASSERT_TRUE(run.ok()) << run.status();
  const auto no_place = [](const std::string& line) {
    return line.find("the files of layer \"bottom.relu\"") != line.npos &&
           line.find("do not have the cells of a.nii") != line.npos;
  };
  EXPECT_EQ(std::count_if(log.begin(), log.end(), no_place), 1) << "its cells are coarser than the input's";
  EXPECT_THAT((*run)[0].artifacts, ElementsAre("metrics.jsonl", "head-0.nii", "head-1.nii", "bottom.relu-0.nii",
                                               "bottom.relu-1.nii", "head-2.nii", "bottom.relu-2.nii"));
  const at::Tensor serial = SerialUnet(volumes_, model_).first;
  for (int64_t i = 0; i < kSamples; ++i) {
    const auto written = folder.ReadArray(absl::StrCat("output/job/head-", i, ".nii"));
    ASSERT_TRUE(written.ok()) << written.status();
    ASSERT_EQ(written->sizes(), serial[i].sizes()) << "channels, z, y, x";
    EXPECT_LT(Largest(*written - serial[i]), 1e-10);
    const std::string header = folder.Bytes(absl::StrCat("output/job/head-", i, ".nii")).substr(0, 348);
    EXPECT_EQ(header.substr(280, 48), headers[i].substr(280, 48)) << "srow";
    EXPECT_EQ(header.substr(254, 2), headers[i].substr(254, 2)) << "sform_code";
  }

  nifti.classes = "classes: true";
  const auto classes = RunJob(NiftiSpec(nifti), {{"set", kSamples}}, folder, /*epoch=*/5);
  ASSERT_TRUE(classes.ok()) << classes.status();
  EXPECT_TRUE(at::equal(folder.ReadArray("output/job/head-2.nii").value(), serial.argmax(1)[2].to(at::kDouble)));
}

TEST_F(PredictionTest, RefusesOutputsThatTheFormatCannotHold) {
  const auto error = [](const std::string& from, const std::string& to) {
    Variant variant = kFour;
    return std::string(
        PlanOfText(absl::StrReplaceAll(SpecOf(variant), {{from, to}}), {{"set", kSamples}}).status().message());
  };
  EXPECT_THAT(error("\"npy\" batch", "\"png\" batch"), HasSubstr("must be \"npy\", \"hdf5\" or \"nifti\""));
  EXPECT_THAT(error("[\"head\", \"bottom.relu\"]", "\"hat\""), HasSubstr("there is no layer \"hat\""));
  EXPECT_THAT(error("weights { init_from: \"w.safetensors\" }", ""), HasSubstr("weights is missing"));
  constexpr char kWide[] = "out_channels: 300 window { kernel: 1 } } }\n#";
  Variant classes = kFour;
  classes.classes = "classes: true";
  EXPECT_THAT(std::string(PlanOfText(absl::StrReplaceAll(SpecOf(classes),
                                                         {{"out_channels: 3 window { kernel: 1 } } }", kWide}}),
                                     {{"set", kSamples}})
                              .status()
                              .message()),
              AllOf(HasSubstr("300 classes"), HasSubstr("numbers 256")));
}

TEST_F(PredictionTest, TakesWeightsThatDoNotAllFitUnlessStrict) {
  const JobFolder folder("some");
  Prepare(folder, kFour);
  const std::string spec =
      absl::StrReplaceAll(SpecOf(kFour), {{"weights { init_from", "weights { strict: false init_from"}});
  Tensors less = model_;
  less.erase("head.bias");
  less["other"] = at::zeros({2});
  ASSERT_TRUE(folder.WriteModel("data/w.safetensors", less).ok());
  const auto run = RunJob(spec, {{"set", kSamples}}, folder);
  EXPECT_TRUE(run.ok()) << run.status() << "; strict: false takes what fits";
  const auto strict = RunJob(SpecOf(kFour), {{"set", kSamples}}, folder);
  EXPECT_THAT(std::string(strict.status().message()),
              AllOf(HasSubstr("missing: head.bias"), HasSubstr("not in the model: other")));
}

}  // namespace
}  // namespace adjoin
