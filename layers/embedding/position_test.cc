// Vectors for positions, and tokens for every sample, equal LibTorch's on one rank.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/zeros.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "layers/network/parameters.h"
#include "primitives/transport/transport_ranks.h"
#include "proto/plan.pb.h"
#include "tests/vs_serial/layer_comparison.h"
#include "tests/vs_serial/partitioned_run.h"
#include "tests/vs_serial/random_jobs.h"
#include "tests/vs_serial/random_layer_job.h"

namespace adjoin {
namespace {

using at::Tensor;

constexpr const char* kHomes[] = {"", "home: OWNER ", "home: REPLICATED ", "home: SHARDED "};

Tensor Sinusoids(int64_t length, int64_t features) {
  Tensor table = at::zeros({length, features}, at::kDouble);
  for (int64_t t = 0; t < length; ++t) {
    for (int64_t i = 0; i < features; ++i) {
      const double angle = t / std::pow(10000.0, 2.0 * (i / 2) / features);
      table[t][i] = i % 2 == 0 ? std::sin(angle) : std::cos(angle);
    }
  }
  return table;
}

std::string ComparePosition(uint64_t seed, TransportKind transport) {
  RandomJobs random(seed);
  const bool learned = random.OneIn(2);
  std::vector<int64_t> shape(learned ? random.Between(3, 5) : 3);
  for (int64_t& extent : shape) extent = random.Between(1, 6);
  const Tensor x = random.Normal(shape).requires_grad_();
  Tensors parameters;
  if (learned) parameters["y.weight"] = random.Normal({shape.begin() + 1, shape.end()}).requires_grad_();
  const std::string home = learned ? kHomes[random.Between(0, 3)] : "";
  const JobParts job =
      RandomLayerJob(random, absl::StrCat(home, "position { kind: \"", learned ? "learned" : "sinusoidal", "\" }"),
                     random.Between(1, 6), shape, shape);
  const Tensor y = x + (learned ? parameters["y.weight"] : Sinusoids(shape[1], shape[2]));
  return CompareLayer(job, random, x, parameters, y, transport);
}

// Beside the tokens, "sum" reads x: else x's gradient would be zero whatever the layer does.
std::string CompareTokens(uint64_t seed, TransportKind transport) {
  RandomJobs random(seed);
  std::vector<int64_t> shape(random.Between(2, 5));
  for (int64_t& extent : shape) extent = random.Between(1, 5);
  const std::vector<int64_t> of_y = {shape[0], random.Between(1, 4), shape.back()};
  JobParts job;
  job.ranks = random.Between(1, 6);
  AddRandomInput(random, "x", shape, job);
  job.last_dims = 3;
  std::string head = absl::StrCat("name: \"y\" input: \"in_x\" ", kHomes[random.Between(0, 3)]);
  if (random.OneIn(3)) {
    job.layouts += random.AnyLayout("p", shape, job.ranks, /*copies=*/true);
    head += " x: \"p\"";
  }
  if (random.OneIn(3)) {
    job.layouts += random.AnyLayout("y", of_y, job.ranks, /*copies=*/true);
    head += " y: \"y\"";
  }
  absl::StrAppend(&job.layers, "layer { name: \"square\" input: \"in_x\" activation { fn: \"square\" } }\n", "layer { ",
                  head, " tokens { count: ", of_y[1], " } }\n");
  const Tensor x = random.Normal(shape).requires_grad_();
  Tensors parameters = {{"y.weight", random.Normal({of_y[1], of_y[2]}).requires_grad_()}};
  const Tensors values = {{"square", x * x}, {"y", parameters["y.weight"].unsqueeze(0).expand(of_y)}};
  return CompareLayer(job, random, {{"x", x}}, parameters, values, transport);
}

TEST(PositionTest, EqualsSerial) {
  const uint64_t seed = TestSeed(1000);
  for (uint64_t i = 0; i < 250; ++i) {
    ASSERT_EQ(ComparePosition(seed + i, TransportKind::kInMemoryDelayed), "") << "ADJOIN_TEST_SEED=" << seed + i;
  }
}

TEST(PositionTest, OverSharedMemory) {
  const uint64_t seed = TestSeed(3000);
  for (uint64_t i = 0; i < 6; ++i) {
    ASSERT_EQ(ComparePosition(seed + i, TransportKind::kUcxSharedMemory), "") << "ADJOIN_TEST_SEED=" << seed + i;
  }
}

TEST(TokensTest, EqualSerial) {
  const uint64_t seed = TestSeed(5000);
  for (uint64_t i = 0; i < 250; ++i) {
    ASSERT_EQ(CompareTokens(seed + i, TransportKind::kInMemoryDelayed), "") << "ADJOIN_TEST_SEED=" << seed + i;
  }
}

TEST(TokensTest, OverSharedMemory) {
  const uint64_t seed = TestSeed(7000);
  for (uint64_t i = 0; i < 6; ++i) {
    ASSERT_EQ(CompareTokens(seed + i, TransportKind::kUcxSharedMemory), "") << "ADJOIN_TEST_SEED=" << seed + i;
  }
}

absl::StatusOr<Plan> SmallPlan(const std::string& layer, const std::vector<int64_t>& sample) {
  JobParts job;
  job.batch = 2;
  job.x_shape = sample;
  job.last_dims = static_cast<int>(sample.size()) + 1;
  job.layers = absl::StrCat("layer { name: \"y\" input: \"x\" ", layer, " }\n");
  return PlanOf(JobText(job), {{"data", 2}});
}

TEST(PositionTest, StartsSmall) {
  for (const std::string layer : {"position { kind: \"learned\" }", "tokens { count: 200 }"}) {
    const auto plan = SmallPlan(layer, {200, 50});
    ASSERT_TRUE(plan.ok()) << plan.status();
    Parameters parameters = *Parameters::Create(*plan, 0);
    parameters.Initialise(7);
    const Tensor weight = parameters.tensor(0).detach();
    EXPECT_EQ(weight.sizes().vec(), (std::vector<int64_t>{200, 50}));
    // Five standard deviations.
    EXPECT_NEAR(weight.mean().item<double>(), 0, 0.02 * 0.05);
    EXPECT_NEAR(weight.std().item<double>(), 0.02, 0.02 * 0.036);
  }
}

TEST(PositionTest, WhatCannotBeIsRefused) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"position { }", "position.kind is missing; write \"learned\" or \"sinusoidal\""},
      {"position { kind: \"rotary\" }", "position.kind is \"rotary\"; write \"learned\" or \"sinusoidal\""},
      {"position { kind: \"sinusoidal\" }",
       "is for [batch, length, features]; the input is 2x3x4x5: write \"learned\""},
      {"home: OWNER position { kind: \"sinusoidal\" }", "home is for a layer's parameters, and it has none"},
      {"w: \"rank0\" position { kind: \"learned\" }", "w is for a weight that is cut otherwise than the input"},
      {"tokens { }", "tokens.count is missing; it must be at least 1"},
      {"w: \"rank0\" tokens { count: 1 }", "w is for a weight that is cut otherwise than the input"}};
  for (const auto& [layer, message] : cases) {
    const auto plan = SmallPlan(layer, {3, 4, 5});
    EXPECT_TRUE(absl::StrContains(std::string(plan.status().message()), message)) << layer << "\n" << plan.status();
  }
  const auto plan = SmallPlan("position { kind: \"learned\" }", {3});
  EXPECT_TRUE(absl::StrContains(std::string(plan.status().message()), "it reads [batch, length, features]"))
      << plan.status();
}

}  // namespace
}  // namespace adjoin
