// Normalisation over groups, instances and the last dims, in any layout, equals LibTorch's on one rank.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/group_norm.h>
#include <ATen/ops/instance_norm.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/sqrt.h>
#include <torch/csrc/autograd/autograd.h>

#include "absl/strings/str_cat.h"
#include "layers/rules/layout_proto.h"
#include "primitives/geometry/layout.h"
#include "primitives/transport/transport_ranks.h"
#include "proto/plan.pb.h"
#include "tests/vs_serial/layer_comparison.h"
#include "tests/vs_serial/partitioned_run.h"
#include "tests/vs_serial/random_jobs.h"
#include "tests/vs_serial/rounded_comparison.h"
#include "tests/vs_serial/second_derivative.h"

namespace adjoin {
namespace {

using at::Tensor;

struct Norms {
  std::string kind;
  std::vector<int64_t> shape;
  int64_t groups = 1;
  int last = 1;  // how many dims "layer" and "rms" normalise over
  bool affine = true;
  double eps = 1e-5;

  bool of_channels() const { return kind == "group" || kind == "instance"; }
  std::vector<int64_t> ParameterShape() const {
    if (of_channels()) return {shape[1]};
    return {shape.end() - last, shape.end()};
  }
  // With leaves of its own for what it has.
  Tensors Parameters(RandomJobs& random) const {
    Tensors parameters;
    if (!affine) return parameters;
    parameters["y.weight"] = random.Normal(ParameterShape()).requires_grad_();
    if (kind != "rms") parameters["y.bias"] = random.Normal(ParameterShape()).requires_grad_();
    return parameters;
  }
  Tensor Serial(const Tensor& x, const Tensors& parameters) const {
    const Tensor weight = affine ? parameters.at("y.weight") : Tensor();
    const Tensor bias = affine && kind != "rms" ? parameters.at("y.bias") : Tensor();
    if (kind == "group") return at::group_norm(x, groups, weight, bias, eps, false);
    if (kind == "instance") return at::instance_norm(x, weight, bias, {}, {}, true, 0, eps, false);
    if (kind == "layer") return at::layer_norm(x, ParameterShape(), weight, bias, eps, false);
    std::vector<int64_t> dims;
    for (int i = 1; i <= last; ++i) dims.push_back(-i);
    const Tensor y = x / at::sqrt((x * x).mean(dims, /*keepdim=*/true) + eps);
    return affine ? y * weight : y;
  }
  std::string Text(RandomJobs& random) const {
    std::string text = absl::StrCat("norm { kind: \"", kind, "\" eps: ", eps);
    if (affine != (kind != "instance")) absl::StrAppend(&text, " affine: ", affine ? "true" : "false");
    if (kind == "group") absl::StrAppend(&text, " groups: ", groups);
    if (!of_channels() && (last > 1 || random.OneIn(2))) {
      const int dims = static_cast<int>(shape.size());
      for (int i = 1; i <= last; ++i) absl::StrAppend(&text, " dim: ", random.OneIn(2) ? -i : dims - i);
    }
    return text + " }";
  }
};

Norms RandomNorms(RandomJobs& random, const std::string& kind) {
  Norms norms;
  norms.kind = kind;
  norms.affine = !random.OneIn(4);
  norms.eps = random.Of<double>({1e-5, 1e-2});
  norms.shape.resize(random.Between(kind == "instance" ? 3 : 2, 5));
  const int dims = static_cast<int>(norms.shape.size());
  for (int64_t& extent : norms.shape) extent = random.Between(1, 4);
  if (kind == "group") {
    norms.groups = random.Between(1, 4);
    norms.shape[1] = norms.groups * random.Between(1, 4);
    // Groups of one element each have gradients of noise alone.
    if (dims == 2 && norms.shape[1] == norms.groups) norms.shape[1] *= 2;
  }
  if (kind == "layer" || kind == "rms") norms.last = static_cast<int>(random.Between(1, dims - 1));
  norms.shape.back() = dims == 2 && kind == "group" ? norms.shape.back() : random.Between(2, 9);
  return norms;
}

// Layer "y" in any layout.
JobParts RandomJob(RandomJobs& random, const Norms& norms) {
  JobParts job;
  job.ranks = random.Between(1, 6);
  job.last_dims = static_cast<int>(norms.shape.size());
  AddRandomInput(random, "x", norms.shape, job);
  std::string fields;
  if (random.OneIn(3)) {
    job.layouts += random.AnyLayout("y", norms.shape, job.ranks, /*copies=*/true);
    fields = " y: \"y\"";
  }
  if (norms.affine) {
    absl::StrAppend(&fields, " ", random.Of<std::string>({"", "home: OWNER", "home: REPLICATED", "home: SHARDED"}));
  }
  if (random.OneIn(4)) fields += " recompute: true";
  absl::StrAppend(&job.layers, "layer { name: \"y\"", fields, " ", norms.Text(random), " }\n");
  return job;
}

std::string Compare(uint64_t seed, const std::string& kind, TransportKind transport) {
  RandomJobs random(seed);
  const Norms norms = RandomNorms(random, kind);
  const JobParts job = RandomJob(random, norms);
  const Tensor x = (random.Normal(norms.shape) * random.Of<double>({1, 5}) + random.Of<double>({0, 3}));
  x.requires_grad_();
  const Tensors parameters = norms.Parameters(random);
  return CompareLayer(job, random, x, parameters, norms.Serial(x, parameters), transport);
}

class NormLayersTest : public testing::TestWithParam<std::string> {};

TEST_P(NormLayersTest, EqualsSerial) {
  const uint64_t seed = TestSeed(1000);
  for (uint64_t i = 0; i < 250; ++i) {
    ASSERT_EQ(Compare(seed + i, GetParam(), TransportKind::kInMemoryDelayed), "") << "ADJOIN_TEST_SEED=" << seed + i;
  }
}

TEST_P(NormLayersTest, OverSharedMemory) {
  const uint64_t seed = TestSeed(9000);
  for (uint64_t i = 0; i < 5; ++i) {
    ASSERT_EQ(Compare(seed + i, GetParam(), TransportKind::kUcxSharedMemory), "") << "ADJOIN_TEST_SEED=" << seed + i;
  }
}

TEST_P(NormLayersTest, TwiceDifferentiable) {
  const uint64_t seed = TestSeed(5000);
  for (uint64_t i = 0; i < 60; ++i) {
    RandomJobs random(seed + i);
    const Norms norms = RandomNorms(random, GetParam());
    JobParts job;
    job.ranks = random.Between(1, 6);
    job.batch = norms.shape[0];
    job.x_shape.assign(norms.shape.begin() + 1, norms.shape.end());
    job.last_dims = static_cast<int>(norms.shape.size());
    job.layouts = random.AnyLayout("x", norms.shape, job.ranks, /*copies=*/false);
    job.layers = absl::StrCat("layer { name: \"y\" input: \"x\" x: \"x\" ", norms.Text(random), " }\n");
    auto plan = PlanOf(JobText(job), {{"data", job.batch}});
    ASSERT_TRUE(plan.ok()) << plan.status();
    MakeFieldsDifferentiable(*plan, "train");
    const Tensor x = random.Normal(norms.shape).requires_grad_();
    const Tensors parameters = norms.Parameters(random);
    TwiceInput input{x.detach(), random.Normal(norms.shape), random.Normal(norms.shape)};
    for (const auto& [name, tensor] : parameters) input.parameters[name] = tensor.detach();
    const Tensor y = norms.Serial(x, parameters);
    const Tensor once = torch::autograd::grad({y}, {x}, {input.u}, true, /*create_graph=*/true)[0];
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

INSTANTIATE_TEST_SUITE_P(Kinds, NormLayersTest, testing::Values("group", "instance", "layer", "rms"),
                         [](const auto& info) { return info.param; });

// On 6 ranks, two of them without cells; the cuts of the channels and of the last dim go through groups.
JobParts CutJob(const Norms& norms, RandomJobs& random) {
  JobParts job;
  job.ranks = 6;
  job.batch = norms.shape[0];
  job.x_shape.assign(norms.shape.begin() + 1, norms.shape.end());
  job.last_dims = 4;
  job.layouts = LayoutText("x", {1, 3, 1, 2}, {0, 1, 2, 3, 4, 5}, {{1, {3, 0, 5}}});
  job.layers = absl::StrCat("layer { name: \"y\" input: \"x\" x: \"x\" ", norms.Text(random), " }\n");
  return job;
}

// One step in `compute` precision: y and x's gradient on each rank within `tolerance` of float64, relative to the
// largest.
void CompareRounded(const Norms& norms, const std::string& compute, const Tensor& x, const Tensor& cotangent,
                    double tolerance) {
  RandomJobs random(1);
  const JobParts job = CutJob(norms, random);
  const auto serial = [&](const Tensor& input, const Tensors& parameters) { return norms.Serial(input, parameters); };
  const auto errors = ErrorsOnRanks({job, compute, x, cotangent, norms.Parameters(random), serial});
  ASSERT_TRUE(errors.ok()) << errors.status();
  for (const char* name : {"y", "x"})
    EXPECT_LT(errors->at(name), tolerance) << norms.kind << " " << compute << " " << name;
}

Norms RoundedCase(const std::string& kind) {
  Norms norms;
  norms.kind = kind;
  norms.shape = {2, 8, 6, 10};
  norms.groups = 2;
  norms.last = 3;
  return norms;
}

// The standard deviation is a millionth of the mean: float32 holds both, but not the mean of the squares.
TEST_P(NormLayersTest, ALargeMeanLosesNothingInFloat32) {
  RandomJobs random(7);
  const Norms norms = RoundedCase(GetParam());
  const Tensor x = random.Normal(norms.shape) + 1e6;
  CompareRounded(norms, "float32", x, random.Normal(norms.shape), 3e-6);
}

// Whatever happens between, what goes in and out is rounded to 8 bits: that, and no more, is lost.
TEST_P(NormLayersTest, BFloat16IsRoundedOnceEachWay) {
  RandomJobs random(8);
  const Norms norms = RoundedCase(GetParam());
  CompareRounded(norms, "bfloat16", random.Normal(norms.shape) + 3, random.Normal(norms.shape), 1.0 / 256);
}

// The layer's movements on `partition`, as "role: bytes that rank 0 sends forward".
std::string Movements(const std::string& norm, const std::vector<int64_t>& shape, const std::vector<int64_t>& partition,
                      const std::map<int, std::vector<int64_t>>& cuts = {}) {
  JobParts job;
  for (int64_t parts : partition) job.ranks *= parts;
  std::vector<int> ranks;
  for (int rank = 0; rank < job.ranks; ++rank) ranks.push_back(rank);
  job.batch = shape[0];
  job.x_shape.assign(shape.begin() + 1, shape.end());
  job.last_dims = static_cast<int>(shape.size());
  job.layouts = LayoutText("x", partition, ranks, cuts);
  job.layers = absl::StrCat("layer { name: \"y\" input: \"x\" x: \"x\" norm { ", norm, " } }\n");
  const auto plan = PlanOf(JobText(job), {{"data", job.batch}});
  if (!plan.ok()) return plan.status().ToString();
  std::string text;
  for (const OperatorPlan& op : plan->program(0).op()) {
    if (op.name() == "y.mean" || op.name() == "y.deviations") {
      absl::StrAppend(&text, op.name(), " ", op.bytes_forward(0), op.from().dtype() == "float64" ? "; " : "?");
    }
  }
  return text;
}

TEST(NormPlanTest, SumsMoveOnlyWhereACutGoesThroughASet) {
  EXPECT_EQ(Movements("kind: \"layer\"", {4, 6, 8}, {2, 3, 1}), "");
  EXPECT_EQ(Movements("kind: \"layer\" dim: -1", {4, 6, 8}, {1, 1, 2}), "y.mean 192; y.deviations 192; ");
  EXPECT_EQ(Movements("kind: \"rms\"", {4, 6, 8}, {1, 3, 2}), "y.deviations 64; ");
  EXPECT_EQ(Movements("kind: \"instance\"", {4, 6, 8}, {2, 3, 1}), "");
  EXPECT_EQ(Movements("kind: \"instance\"", {4, 6, 8}, {1, 1, 2}), "y.mean 192; y.deviations 192; ");
  EXPECT_EQ(Movements("kind: \"group\" groups: 2", {4, 6, 8}, {1, 2, 1}), "") << "between the groups";
  EXPECT_EQ(Movements("kind: \"group\" groups: 2", {4, 6, 8}, {1, 2, 1}, {{1, {6, 0}}}), "") << "the same";
  EXPECT_EQ(Movements("kind: \"group\" groups: 2", {4, 6, 8}, {1, 2, 1}, {{1, {2, 4}}}),
            "y.mean 64; y.deviations 64; ");
}

}  // namespace
}  // namespace adjoin
