// Training with losses at two resolutions, on blocks of volumes and of their coarser targets, compared with plain
// LibTorch on the same blocks.
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/conv3d.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/mse_loss.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/relu.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/testing/test_seed.h"
#include "tests/predict/job_run.h"
#include "worker/samples/shard_reader.h"

namespace adjoin {
namespace {

constexpr int64_t kVolumes = 3, kSteps = 4;
constexpr double kRate = 0.1;

constexpr char kJob[] = R"job(
name: "deep" kind: TRAIN ranks: RANKS seed: 5
layout { name: "grid" GRID }
layer { name: "fine" input: "image" x: "grid" conv { out_channels: 4 window { kernel: 3 pad_lo: 1 } } }
layer { name: "fine.relu" activation { fn: "relu" } }
layer { name: "coarse" conv { out_channels: 4 window { kernel: 3 stride: 2 pad_lo: 1 } } }
layer { name: "coarse.head" conv { out_channels: 3 window { kernel: 1 } } }
layer { name: "fine.head" input: "fine.relu" conv { out_channels: 2 window { kernel: 1 } } }
loss { kind: "mse" input: "fine.head" target: "wanted" }
loss { kind: "cross_entropy" input: "coarse.head" target: "label2" weight: 0.5 }
dataset { name: "set"
  field { name: "image" npy { path: "image.npy" } shape: [1, 13, 10, 12] }
  field { name: "wanted" npy { path: "wanted.npy" } shape: [2, 13, 10, 12] }
  field { name: "label2" npy { path: "label2.npy" } shape: [7, 5, 6] dtype: "int64" }
  blocks { size: [8, 4, 8] per_epoch: 6 } augment: "flip(1)" }
train { dataset: "set" batch: 2 steps: 4 optimizer { sgd { lr: 0.1 } } }
weights { init_from: "w.safetensors" }
precision { compute: "float64" }
output_dir: "job"
)job";

std::string SpecOf(int ranks, const std::string& grid) {
  return absl::StrReplaceAll(kJob, {{"RANKS", absl::StrCat(ranks)}, {"GRID", grid}});
}

TEST(DeepSupervisionTest, EveryCutTrainsAsLibTorchDoesOnTheSameBlocks) {
  at::manual_seed(TestSeed(61));
  const JobFolder folder("deep");
  folder.WriteArray("data/image.npy", at::randn({kVolumes, 1, 13, 10, 12}, at::kDouble));
  folder.WriteArray("data/wanted.npy", at::randn({kVolumes, 2, 13, 10, 12}, at::kDouble));
  folder.WriteArray("data/label2.npy", at::randint(0, 3, {kVolumes, 7, 5, 6}, at::kLong));
  const auto plan = PlanOfText(SpecOf(1, "partition: [1, 1, 1, 1, 1]"), {{"set", kVolumes}});
  ASSERT_TRUE(plan.ok()) << plan.status();
  Tensors model = RandomModel(*plan);
  ASSERT_TRUE(folder.WriteModel("data/w.safetensors", model).ok());

  std::vector<double> serial;
  const auto reader = ShardReader::Create(*plan, "set", folder.Path("data"), 0);
  ASSERT_TRUE(reader.ok()) << reader.status();
  for (auto& [name, tensor] : model) tensor.requires_grad_(true);
  for (int64_t step = 0; step < kSteps; ++step) {
    const auto batch = (*reader)->Read(plan->program(0), /*epoch=*/step / 3, /*first=*/step % 3 * 2);
    ASSERT_TRUE(batch.ok()) << batch.status();
    ASSERT_EQ(batch->at("label2").sizes(), at::IntArrayRef({2, 4, 2, 4})) << "half of a block in each dim";
    const auto conv = [&](const at::Tensor& in, const std::string& name, int64_t stride, int64_t pad) {
      return at::conv3d(in, model.at(name + ".weight"), model.at(name + ".bias"), stride, pad);
    };
    const at::Tensor fine = at::relu(conv(batch->at("image"), "fine", 1, 1));
    const at::Tensor coarse = conv(conv(fine, "coarse", 2, 1), "coarse.head", 1, 0);
    const at::Tensor loss = at::mse_loss(conv(fine, "fine.head", 1, 0), batch->at("wanted")) +
                            0.5 * at::cross_entropy_loss(coarse, batch->at("label2"));
    serial.push_back(loss.item<double>());
    loss.backward();
    const at::NoGradGuard no_grad;
    for (auto& [name, tensor] : model) {
      tensor -= kRate * tensor.grad();
      tensor.mutable_grad() = at::Tensor();
    }
  }
  const std::vector<std::pair<int, std::string>> cuts = {{1, "partition: [1, 1, 1, 1, 1]"},
                                                         {2, "partition: [2, 1, 1, 1, 1]"},
                                                         {2, "partition: [1, 1, 2, 1, 1]"},
                                                         {4, "partition: [1, 1, 2, 1, 2]"}};
  for (const auto& [ranks, grid] : cuts) {
    SCOPED_TRACE(absl::StrCat(ranks, " ranks, ", grid));
    std::filesystem::remove_all(folder.Path("output/job"));
    const auto run = RunJob(SpecOf(ranks, grid), {{"set", kVolumes}}, folder);
    ASSERT_TRUE(run.ok()) << run.status();
    std::ifstream file(folder.Path("output/job/metrics.jsonl"));
    std::vector<double> losses;
    for (std::string line; std::getline(file, line);) {
      const nlohmann::json parsed = nlohmann::json::parse(line);
      if (parsed["type"] == "step") losses.push_back(parsed["loss"]);
    }
    ASSERT_EQ(losses.size(), serial.size());
    for (int64_t step = 0; step < kSteps; ++step) EXPECT_NEAR(losses[step], serial[step], 1e-11) << "step " << step;
  }
}

}  // namespace
}  // namespace adjoin
