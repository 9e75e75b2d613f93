// Local response normalisation in any layout equals LibTorch's on one rank.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/allclose.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/nn/functional.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "layers/rules/layout_proto.h"
#include "primitives/geometry/layout.h"
#include "primitives/transport/transport_ranks.h"
#include "proto/job.pb.h"
#include "proto/plan.pb.h"
#include "tests/vs_serial/layer_comparison.h"
#include "tests/vs_serial/partitioned_run.h"
#include "tests/vs_serial/random_jobs.h"
#include "tests/vs_serial/second_derivative.h"

namespace adjoin {
namespace {

using at::Tensor;

struct NormCase {
  std::vector<int64_t> shape;
  LocalResponseNorm norm;

  // The window may be wider than the channels.
  static NormCase Random(RandomJobs& random) {
    NormCase c;
    c.shape.resize(random.Between(3, 5));
    for (int64_t& extent : c.shape) extent = random.Between(1, 4);
    c.shape[1] = random.Between(1, 9);
    c.norm.set_size(static_cast<uint32_t>(random.Between(1, 6)));
    if (!random.OneIn(3)) c.norm.set_alpha(random.Of<double>({0.5, 2}));
    if (random.OneIn(2)) c.norm.set_beta(random.Of<double>({0.5, 1.5}));
    if (random.OneIn(2)) c.norm.set_k(2);
    return c;
  }
  std::string Text() const { return absl::StrCat("local_response_norm { ", norm.ShortDebugString(), " }"); }
  Tensor Serial(const Tensor& x) const {
    return torch::nn::functional::local_response_norm(x,
                                                      torch::nn::functional::LocalResponseNormFuncOptions(norm.size())
                                                          .alpha(norm.has_alpha() ? norm.alpha() : 1e-4)
                                                          .beta(norm.has_beta() ? norm.beta() : 0.75)
                                                          .k(norm.has_k() ? norm.k() : 1));
  }
};

std::string Compare(uint64_t seed, TransportKind transport) {
  RandomJobs random(seed);
  const NormCase c = NormCase::Random(random);
  JobParts job;
  job.ranks = random.Between(1, 6);
  job.last_dims = static_cast<int>(c.shape.size());
  AddRandomInput(random, "x", c.shape, job);
  std::string fields;
  if (random.OneIn(3)) {
    job.layouts += random.AnyLayout("y", c.shape, job.ranks, /*copies=*/true);
    fields = " y: \"y\"";
  }
  if (random.OneIn(4)) fields += " recompute: true";
  absl::StrAppend(&job.layers, "layer { name: \"y\"", fields, " ", c.Text(), " }\n");
  const Tensor x = (random.Normal(c.shape) * 2).requires_grad_();
  return CompareLayer(job, random, x, {}, c.Serial(x), transport);
}

TEST(LocalResponseNormTest, EqualsSerial) {
  const uint64_t seed = TestSeed(1000);
  for (uint64_t i = 0; i < 250; ++i) {
    ASSERT_EQ(Compare(seed + i, TransportKind::kInMemoryDelayed), "") << "ADJOIN_TEST_SEED=" << seed + i;
  }
}

TEST(LocalResponseNormTest, OverSharedMemory) {
  const uint64_t seed = TestSeed(9000);
  for (uint64_t i = 0; i < 5; ++i) {
    ASSERT_EQ(Compare(seed + i, TransportKind::kUcxSharedMemory), "") << "ADJOIN_TEST_SEED=" << seed + i;
  }
}

TEST(LocalResponseNormTest, SerialEqualsItsDefinition) {
  NormCase c;
  c.norm.set_size(4);
  c.norm.set_alpha(0.5);
  const Tensor x = RandomJobs(3).Normal({1, 7, 1});
  const Tensor y = c.Serial(x);
  const auto value = [](const Tensor& tensor, int64_t channel) { return tensor.flatten()[channel].item<double>(); };
  for (int64_t channel = 0; channel < 7; ++channel) {
    double squares = 0;
    for (int64_t other = std::max<int64_t>(0, channel - 2); other <= std::min<int64_t>(6, channel + 1); ++other) {
      squares += value(x, other) * value(x, other);
    }
    EXPECT_NEAR(value(y, channel), value(x, channel) / std::pow(1 + 0.5 / 4 * squares, 0.75), 1e-12) << channel;
  }
}

TEST(LocalResponseNormTest, TwiceDifferentiable) {
  const uint64_t seed = TestSeed(5000);
  for (uint64_t i = 0; i < 60; ++i) {
    RandomJobs random(seed + i);
    const NormCase c = NormCase::Random(random);
    JobParts job;
    job.ranks = random.Between(1, 6);
    job.batch = c.shape[0];
    job.x_shape.assign(c.shape.begin() + 1, c.shape.end());
    job.last_dims = static_cast<int>(c.shape.size());
    job.layouts = random.AnyLayout("x", c.shape, job.ranks, /*copies=*/false);
    job.layers = absl::StrCat("layer { name: \"y\" input: \"x\" x: \"x\" ", c.Text(), " }\n");
    auto plan = PlanOf(JobText(job), {{"data", job.batch}});
    ASSERT_TRUE(plan.ok()) << plan.status();
    MakeFieldsDifferentiable(*plan, "train");
    const Tensor x = random.Normal(c.shape).requires_grad_();
    const TwiceInput input{x.detach(), random.Normal(c.shape), random.Normal(c.shape)};
    const Tensor once = torch::autograd::grad({c.Serial(x)}, {x}, {input.u}, true, /*create_graph=*/true)[0];
    const Tensor twice = torch::autograd::grad({(once * input.v).sum()}, {x})[0];
    const auto results = SecondDerivative(*plan, input, seed + i);
    ASSERT_TRUE(results.ok()) << results.status();
    const Layout layout = *LayoutFromProto(plan->program(0).value(0).layout());
    const double scale = std::max(1.0, twice.abs().max().item<double>());
    for (int rank = 0; rank < job.ranks; ++rank) {
      EXPECT_TRUE(at::allclose((*results)[rank], PartOf(twice, layout, rank), 1e-10, 1e-10 * scale))
          << "rank " << rank << " ADJOIN_TEST_SEED=" << seed + i << "\n"
          << JobText(job);
    }
  }
}

TEST(LocalResponseNormTest, WhatIsWrongIsNamed) {
  const auto error = [](const std::string& norm, std::vector<int64_t> x_shape) {
    JobParts job;
    job.batch = 2;
    job.x_shape = std::move(x_shape);
    job.last_dims = static_cast<int>(job.x_shape.size()) + 1;
    job.layouts = LayoutText("x", std::vector<int64_t>(job.x_shape.size() + 1, 1), {0});
    job.layers = absl::StrCat("layer { name: \"y\" input: \"x\" x: \"x\" local_response_norm { ", norm, " } }\n");
    return std::string(PlanOf(JobText(job), {{"data", 2}}).status().message());
  };
  EXPECT_TRUE(absl::StrContains(error("", {4, 5}), "size is missing")) << error("", {4, 5});
  EXPECT_TRUE(absl::StrContains(error("size: 3 alpha: nan", {4, 5}), "must be finite"));
  EXPECT_TRUE(absl::StrContains(error("size: 3", {4}), "3 dims or more"));
}

}  // namespace
}  // namespace adjoin
