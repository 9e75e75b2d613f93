// Pooling of every mode over random windows, cuts and ranks equals LibTorch's on one rank.
#include <gtest/gtest.h>

#include <torch/nn/functional.h>
#include <torch/types.h>
#include <string>
#include <tuple>
#include <vector>

#include <torch/torch.h>

#include "absl/strings/str_cat.h"
#include "layers/pool/pool_case.h"
#include "primitives/transport/transport_ranks.h"
#include "proto/plan.pb.h"
#include "tests/vs_serial/layer_comparison.h"
#include "tests/vs_serial/partitioned_run.h"
#include "tests/vs_serial/random_jobs.h"
#include "tests/vs_serial/random_layer_job.h"

namespace adjoin {
namespace {

std::vector<int64_t> RandomShape(RandomJobs& random, const PoolCase& c) {
  std::vector<int64_t> shape = {random.Between(1, 3), random.Between(1, 4)};
  shape.insert(shape.end(), c.extent.begin(), c.extent.end());
  return shape;
}

std::string Compare(uint64_t seed, PoolKind kind, int spatial, TransportKind transport) {
  RandomJobs random(seed);
  const PoolCase c = RandomPoolCase(random, kind, spatial);
  const torch::Tensor x = PoolData(random, c, RandomShape(random, c)).requires_grad_();
  const torch::Tensor y = SerialPool(x, c);
  // A dilated window may hit padding only: max_pool_test.cc has these, the loss here would not be finite.
  if (torch::isinf(y).any().item<bool>()) return "";
  const JobParts job =
      RandomLayerJob(random, c.Text(), random.Of<int64_t>({1, 2, 3, 4, 6}), x.sizes().vec(), y.sizes().vec());
  return CompareLayer(job, random, x, {}, y, transport);
}

class PoolTest : public testing::TestWithParam<std::tuple<PoolKind, int>> {};

TEST_P(PoolTest, EqualsSerial) {
  const auto [kind, spatial] = GetParam();
  const uint64_t seed = TestSeed(3000);
  for (uint64_t i = 0; i < 120; ++i) {
    ASSERT_EQ(Compare(seed + i, kind, spatial, TransportKind::kInMemoryDelayed), "") << "ADJOIN_TEST_SEED=" << seed + i;
  }
}

INSTANTIATE_TEST_SUITE_P(KindsAndSpatialDims, PoolTest,
                         testing::Combine(testing::Values(PoolKind::kMax, PoolKind::kAverage, PoolKind::kPower,
                                                          PoolKind::kAdaptiveMax, PoolKind::kAdaptiveAverage),
                                          testing::Values(1, 2, 3)));

TEST(PoolTransportTest, OverSharedMemory) {
  const uint64_t seed = TestSeed(9000);
  for (uint64_t i = 0; i < 6; ++i) {
    const PoolKind kind = i % 2 == 0 ? PoolKind::kMax : PoolKind::kAdaptiveAverage;
    ASSERT_EQ(Compare(seed + i, kind, 1 + static_cast<int>(i % 3), TransportKind::kUcxSharedMemory), "")
        << "ADJOIN_TEST_SEED=" << seed + i;
  }
}

// A job without Layer.y: its layers, the last of them called "fc".
std::string Text(int64_t ranks, const std::string& layouts_and_layers, const std::vector<int64_t>& x_shape) {
  const std::vector<int64_t> sample(x_shape.begin() + 1, x_shape.end());
  return absl::StrCat("name: \"case\" kind: TRAIN ranks: ", ranks, " seed: 1 precision { compute: \"float64\" }\n",
                      layouts_and_layers,
                      "\nloss { kind: \"cross_entropy\" input: \"fc\" target: \"label\" }\n"
                      "dataset { name: \"data\" field { name: \"x\" shape: ",
                      ListText(sample),
                      " idx { path: \"x\" } } field { name: \"label\" dtype: \"int64\" idx { path: \"label\" } } }\n"
                      "train { dataset: \"data\" batch: ",
                      x_shape[0], " steps: 1 optimizer { sgd { lr: 0.1 } } }\noutput_dir: \"out\"\n");
}

// The head of a residual network: pooled over all of the image, flattened, and a linear layer, without a repartition.
std::string CompareHead(const std::vector<int64_t>& partition, const std::string& mode) {
  RandomJobs random(7);
  const std::vector<int64_t> shape = {5, 6, 7, 4};
  int64_t ranks = 1;
  for (int64_t parts : partition) ranks *= parts;
  const torch::Tensor x = random.Normal(shape).requires_grad_();
  const torch::Tensor weight = random.Normal({3, 6}).requires_grad_(), bias = random.Normal({3}).requires_grad_();
  const torch::Tensor label = random.Labels(5, 3);
  const torch::Tensor pooled =
      mode == "avg" ? torch::adaptive_avg_pool2d(x, {1, 1}) : std::get<0>(torch::adaptive_max_pool2d(x, {1, 1}));
  const torch::Tensor y = torch::linear(torch::flatten(pooled, 1), weight, bias);
  torch::nn::functional::cross_entropy(y, label).backward();

  const std::string spec = Text(ranks,
                                absl::StrCat(LayoutText("x", partition, random.Ranks(ranks, ranks)),
                                             "layer { name: \"pool\" input: \"x\" x: \"x\" pool { mode: \"", mode,
                                             "\" adaptive_size: 1 } }\nlayer { name: \"flat\" flatten { arg: 1 } }\n"
                                             "layer { name: \"fc\" linear { out_features: 3 } }"),
                                shape);
  absl::StatusOr<Plan> plan = PlanOf(spec, {{"data", 5}});
  if (!plan.ok()) return absl::StrCat(plan.status().ToString(), "\n", spec);
  MakeFieldsDifferentiable(*plan, "train");
  StepInput input;
  input.fields = {{"x", x.detach()}, {"label", label}};
  input.parameters = {{"fc.weight", weight.detach()}, {"fc.bias", bias.detach()}};
  auto results = RunStep(*plan, input);
  if (!results.ok()) return absl::StrCat(results.status().ToString(), "\n", spec);
  Expected expected;
  expected.values = {{"pool", pooled.detach()}, {"fc", y.detach()}};
  expected.field_grads = {{"x", x.grad()}};
  expected.parameter_grads = {{"fc.weight", weight.grad()}, {"fc.bias", bias.grad()}};
  return Differences(*plan, "train", *results, expected, 1e-10);
}

TEST(PoolHeadTest, PoolFlattenLinearWithoutARepartition) {
  for (const char* mode : {"avg", "max"}) {
    for (const std::vector<int64_t>& partition : std::vector<std::vector<int64_t>>{
             {3, 1, 1, 1}, {1, 1, 2, 2}, {1, 1, 3, 1}, {2, 1, 1, 2}, {1, 2, 2, 1}, {1, 3, 1, 1}, {1, 1, 1, 6}}) {
      EXPECT_EQ(CompareHead(partition, mode), "") << mode << " " << ListText(partition);
    }
  }
}

std::string CompareIndices(uint64_t seed, PoolKind kind, int spatial) {
  RandomJobs random(seed);
  const PoolCase c = RandomPoolCase(random, kind, spatial, /*symmetric=*/true);
  const torch::Tensor x = PoolData(random, c, RandomShape(random, c)).requires_grad_();
  const auto [y, indices] = SerialMaxPoolWithIndices(x, c);
  if (torch::isinf(y).any().item<bool>()) return "";
  JobParts job = RandomLayerJob(random, c.Text(/*return_indices=*/true), random.Of<int64_t>({2, 3, 4}), x.sizes().vec(),
                                y.sizes().vec());
  // The indices take no part in the loss: a layer beside them does.
  absl::StrAppend(&job.layers, "layer { name: \"beside\" input: \"x\" x: \"x\" activation { fn: \"relu\" } }\n");
  const std::string spec = JobText(job);
  absl::StatusOr<Plan> plan = PlanOf(spec, {{"data", job.batch}});
  if (!plan.ok()) return absl::StrCat(plan.status().ToString(), "\n", spec);
  MakeFieldsDifferentiable(*plan, "train");
  StepInput input;
  input.fields = {{"x", x.detach()}, {"label", random.Labels(job.batch, 3)}};
  auto results = RunStep(*plan, input);
  if (!results.ok()) return absl::StrCat(results.status().ToString(), "\n", spec);
  Expected expected;
  expected.values = {{"y", indices}, {"gathered", torch::relu(x.detach())}};
  const std::string differences = Differences(*plan, "train", *results, expected, 0);
  // The head's parameters have no serial counterpart here.
  return differences.find("y on rank") == std::string::npos ? "" : absl::StrCat(differences, spec);
}

TEST(PoolIndicesTest, AreLibTorchsOnEveryRank) {
  const uint64_t seed = TestSeed(6000);
  for (uint64_t i = 0; i < 60; ++i) {
    ASSERT_EQ(
        CompareIndices(seed + i, i % 2 == 0 ? PoolKind::kMax : PoolKind::kAdaptiveMax, 1 + static_cast<int>(i % 3)), "")
        << "ADJOIN_TEST_SEED=" << seed + i;
  }
}

}  // namespace
}  // namespace adjoin
