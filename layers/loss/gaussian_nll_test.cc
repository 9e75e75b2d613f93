// Gaussian_nll equals torch.nn.functional.gaussian_nll_loss on one rank: the value and the gradients of prediction and
// variance, which are layers' outputs in any layouts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <torch/types.h>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include <torch/torch.h>

#include "absl/strings/str_cat.h"
#include "primitives/transport/transport_ranks.h"
#include "proto/plan.pb.h"
#include "tests/vs_serial/partitioned_run.h"
#include "tests/vs_serial/random_jobs.h"

namespace adjoin {
namespace {

using ::testing::HasSubstr;
using torch::Tensor;

struct Case {
  std::vector<int64_t> shape, variance_shape;
  std::string options;  // of Loss
  std::string reduction;
  bool full = false;
  double eps = 1e-6;
};

// `narrow`: the variance may have one number for the last dim.
Case RandomCase(RandomJobs& random, bool narrow) {
  Case c;
  const int64_t dims = random.Between(2, 5);
  while (static_cast<int64_t>(c.shape.size()) < dims) c.shape.push_back(random.Between(1, 4));
  c.shape[0] = random.Between(2, 5);
  c.variance_shape = c.shape;
  if (narrow && random.OneIn(2)) c.variance_shape.back() = 1;
  c.reduction = random.Of<std::string>({"", "mean", "sum"});
  c.full = random.OneIn(2);
  if (random.OneIn(2)) c.eps = 0.5;
  c.options = absl::StrCat(c.reduction.empty() ? "" : absl::StrCat(" reduction: \"", c.reduction, "\""),
                           c.full ? " full: true" : "", c.eps == 0.5 ? " eps: 0.5" : "");
  return c;
}

// Below eps a variance counts as eps, while its gradient passes.
Tensor Serial(const Case& c, const Tensor& prediction, const Tensor& target, const Tensor& variance) {
  const Tensor used = variance + (torch::maximum(variance, torch::full_like(variance, c.eps)) - variance).detach();
  const Tensor distance = prediction - target;
  Tensor each = torch::log(used).expand_as(prediction) / 2 + distance * distance / (2 * used);
  if (c.full) each = each + std::log(2 * std::acos(-1.0)) / 2;
  return c.reduction == "sum" ? each.sum() : each.sum() / static_cast<double>(each.numel());
}

std::string FieldText(const std::string& name, const std::vector<int64_t>& batch) {
  const std::vector<int64_t> sample(batch.begin() + 1, batch.end());
  return absl::StrCat(" field { name: \"", name, "\"", sample.empty() ? "" : absl::StrCat(" shape: ", ListText(sample)),
                      " idx { path: \"", name, "\" } }");
}

std::string JobOf(const Case& c, int64_t ranks, const std::string& layouts_and_layers, const std::string& fields) {
  return absl::StrCat("name: \"case\" kind: TRAIN ranks: ", ranks, " seed: 1 precision { compute: \"float64\" }\n",
                      layouts_and_layers, "loss { kind: \"gaussian_nll\" input: \"y\" variance: \"v\" target: \"t\"",
                      c.options, " }\ndataset { name: \"data\"", fields, FieldText("t", c.shape),
                      " }\ntrain { dataset: \"data\" batch: ", c.shape[0],
                      " steps: 1 optimizer { sgd { lr: 0.1 } } }\noutput_dir: \"out\"\n");
}

std::string CompareRanks(const Plan& plan, const StepInput& input, const Expected& expected, double loss,
                         const std::string& spec) {
  const auto ranks = RunStep(plan, input);
  if (!ranks.ok()) return absl::StrCat(ranks.status().ToString(), "\n", spec);
  std::string differences = Differences(plan, "train", *ranks, expected, 1e-10);
  for (const RankResult& rank : *ranks) {
    if (!(std::abs(rank.loss - loss) <= 1e-10 * std::max(1.0, std::abs(loss)))) {
      absl::StrAppend(&differences, "loss ", rank.loss, " instead of ", loss, "\n");
    }
  }
  return differences.empty() ? "" : absl::StrCat(differences, spec);
}

// Prediction and variance are fields, whose gradients are compared. A linear layer beside them has the parameters that
// a job must have.
std::string CompareFields(uint64_t seed, int64_t ranks, TransportKind transport) {
  RandomJobs random(seed);
  const Case c = RandomCase(random, /*narrow=*/true);
  const Tensor x = random.Normal(c.shape).requires_grad_(), target = random.Normal(c.shape);
  const Tensor s = random.Normal(c.variance_shape).exp().requires_grad_();
  const Tensor loss = Serial(c, x, target, s);
  loss.backward();
  std::string text = random.AnyLayout("x", c.shape, ranks, /*copies=*/false) +
                     random.AnyLayout("y", c.shape, ranks, /*copies=*/true) +
                     random.AnyLayout("s", c.variance_shape, ranks, /*copies=*/false) +
                     random.AnyLayout("v", c.variance_shape, ranks, /*copies=*/true) +
                     LayoutText("one", std::vector<int64_t>(2, 1), {0});
  text +=
      "layer { name: \"y\" input: \"x\" x: \"x\" y: \"y\" repartition {} }\n"
      "layer { name: \"v\" input: \"s\" x: \"s\" y: \"v\" repartition {} }\n"
      "layer { name: \"w\" input: \"u\" x: \"one\" linear { out_features: 1 } }\n";
  const std::string spec = JobOf(
      c, ranks, text, FieldText("x", c.shape) + FieldText("s", c.variance_shape) + FieldText("u", {c.shape[0], 1}));
  absl::StatusOr<Plan> plan = PlanOf(spec, {{"data", c.shape[0]}});
  if (!plan.ok()) return absl::StrCat(plan.status().ToString(), "\n", spec);
  MakeFieldsDifferentiable(*plan, "train");
  StepInput input;
  input.fields = {
      {"x", x.detach()}, {"s", s.detach()}, {"t", target}, {"u", torch::zeros({c.shape[0], 1}, torch::kDouble)}};
  input.transport = transport;
  input.seed = random.Between(0, 1 << 30);
  Expected expected;
  expected.field_grads = {{"x", x.grad()}, {"s", s.grad()}};
  expected.parameter_grads = {{"w.weight", torch::zeros({1, 1}, torch::kDouble)},
                              {"w.bias", torch::zeros({1}, torch::kDouble)}};
  return CompareRanks(*plan, input, expected, loss.item<double>(), spec);
}

// The gradients reach the parameters of a layer by way of the variance, and half of the time of the prediction.
std::string CompareParameters(uint64_t seed, int64_t ranks) {
  RandomJobs random(seed);
  const Case c = RandomCase(random, /*narrow=*/false);
  const bool fixed = random.OneIn(2);  // the prediction
  const Tensor x = random.Normal(c.shape), target = random.Normal(c.shape);
  Tensors parameters;
  for (const char* name : {"n.weight", "n.bias"}) {
    parameters[name] = random.Normal({c.shape[1]}).requires_grad_();
  }
  const Tensor n = torch::batch_norm(x, parameters["n.weight"], parameters["n.bias"], {}, {}, true, 0.1, 1e-5, false);
  const Tensor loss = Serial(c, fixed ? x : n, target, torch::softplus(n));
  loss.backward();
  const std::string text = absl::StrCat(
      random.AnyLayout("x", c.shape, ranks, /*copies=*/false), random.AnyLayout("y", c.shape, ranks, /*copies=*/true),
      random.AnyLayout("v", c.shape, ranks, /*copies=*/true),
      "layer { name: \"n\" input: \"x\" x: \"x\" norm { kind: \"batch\" } }\n", "layer { name: \"y\" input: \"",
      fixed ? "x" : "n", "\" x: \"x\" y: \"y\" repartition {} }\n",
      "layer { name: \"v\" input: \"n\" y: \"v\" activation { fn: \"softplus\" } }\n");
  const std::string spec = JobOf(c, ranks, text, FieldText("x", c.shape));
  const absl::StatusOr<Plan> plan = PlanOf(spec, {{"data", c.shape[0]}});
  if (!plan.ok()) return absl::StrCat(plan.status().ToString(), "\n", spec);
  StepInput input;
  input.fields = {{"x", x}, {"t", target}};
  Expected expected;
  for (const auto& [name, parameter] : parameters) {
    input.parameters[name] = parameter.detach();
    expected.parameter_grads[name] = parameter.grad();
  }
  return CompareRanks(*plan, input, expected, loss.item<double>(), spec);
}

TEST(GaussianNllTest, OfFieldsInAnyLayouts) {
  const uint64_t first = TestSeed(100);
  for (uint64_t seed = first; seed < first + 40; ++seed) {
    const auto transport = seed % 8 == 7 ? TransportKind::kUcxSharedMemory : TransportKind::kInMemoryDelayed;
    ASSERT_EQ(CompareFields(seed, 1 + static_cast<int64_t>(seed % 6), transport), "") << "ADJOIN_TEST_SEED=" << seed;
  }
}

TEST(GaussianNllTest, AfterLayersWithParameters) {
  const uint64_t first = TestSeed(500);
  for (uint64_t seed = first; seed < first + 24; ++seed) {
    ASSERT_EQ(CompareParameters(seed, 1 + static_cast<int64_t>(seed % 6)), "") << "ADJOIN_TEST_SEED=" << seed;
  }
}

TEST(GaussianNllTest, ANegativeVarianceIsAnError) {
  Case c;
  c.shape = c.variance_shape = {2, 3};
  const std::string spec = JobOf(c, 2,
                                 "layout { name: \"x\" partition: [1, 2] }\n"
                                 "layer { name: \"y\" input: \"x\" x: \"x\" norm { kind: \"batch\" } }\n"
                                 "layer { name: \"v\" input: \"s\" x: \"x\" y: \"x\" repartition {} }\n",
                                 FieldText("x", c.shape) + FieldText("s", c.shape));
  const absl::StatusOr<Plan> plan = PlanOf(spec, {{"data", 2}});
  ASSERT_TRUE(plan.ok()) << plan.status();
  StepInput input;
  const Tensor ones = torch::ones({2, 3}, torch::kDouble);
  input.fields = {{"x", ones}, {"t", ones}, {"s", ones.clone()}};
  input.fields["s"][1][2] = -0.25;
  const auto ranks = RunStep(*plan, input);
  EXPECT_EQ(ranks.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(ranks.status().message()),
              HasSubstr("loss 0, gaussian_nll of \"y\": the variance, layer \"v\", holds -0.25; a variance must not be"
                        " negative"));
}

}  // namespace
}  // namespace adjoin
