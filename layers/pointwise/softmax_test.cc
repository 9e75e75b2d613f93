// Softmax and its logarithm over any dim, cut or not, equal LibTorch's on one rank.
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/full.h>
#include <ATen/ops/log_softmax.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/autograd.h>

#include "absl/strings/str_cat.h"
#include "layers/rules/layout_proto.h"
#include "primitives/geometry/layout.h"
#include "primitives/transport/transport_ranks.h"
#include "proto/plan.pb.h"
#include "tests/vs_serial/layer_comparison.h"
#include "tests/vs_serial/partitioned_run.h"
#include "tests/vs_serial/random_jobs.h"
#include "tests/vs_serial/second_derivative.h"

namespace adjoin {
namespace {

using at::Tensor;

constexpr double kMinusInfinity = -std::numeric_limits<double>::infinity();

struct Case {
  std::vector<int64_t> shape;
  int64_t dim = 0;  // as written
  bool log = false;
  JobParts job;

  Tensor Serial(const Tensor& x) const { return log ? at::log_softmax(x, dim) : at::softmax(x, dim); }
};

// Layer "y" on the field "x" in any layout.
Case RandomCase(RandomJobs& random) {
  Case c;
  c.shape.resize(random.Between(2, 5));
  for (int64_t& extent : c.shape) extent = random.Between(1, 4);
  const int dims = static_cast<int>(c.shape.size());
  c.dim = random.Between(-dims, dims - 1);
  c.shape[c.dim < 0 ? c.dim + dims : c.dim] = random.Between(1, 9);
  c.log = random.OneIn(2);
  c.job.ranks = random.Between(1, 6);
  c.job.last_dims = dims;
  AddRandomInput(random, "x", c.shape, c.job);
  std::string y;
  if (random.OneIn(3)) {
    c.job.layouts += random.AnyLayout("y", c.shape, c.job.ranks, /*copies=*/true);
    y = " y: \"y\"";
  }
  absl::StrAppend(&c.job.layers, "layer { name: \"y\"", y, " softmax { dim: ", c.dim, c.log ? " log: true" : "",
                  " } }\n");
  return c;
}

std::string Compare(uint64_t seed, TransportKind transport) {
  RandomJobs random(seed);
  const Case c = RandomCase(random);
  Tensor x = random.Normal(c.shape);
  if (random.OneIn(4)) x = x * 1e4;
  if (!c.log && random.OneIn(4)) {
    // Some cells count nothing; each row keeps one that does.
    const Tensor first = at::zeros(c.shape, at::kBool);
    first.select(c.dim, random.Between(0, first.size(c.dim) - 1)).fill_(true);
    x = at::where(first | (random.Normal(c.shape) > -0.5), x, at::full({}, kMinusInfinity, at::kDouble));
  }
  x.requires_grad_();
  return CompareLayer(c.job, random, x, {}, c.Serial(x), transport);
}

TEST(SoftmaxTest, EqualsSerial) {
  const uint64_t seed = TestSeed(1000);
  for (uint64_t i = 0; i < 500; ++i) {
    ASSERT_EQ(Compare(seed + i, TransportKind::kInMemoryDelayed), "") << "ADJOIN_TEST_SEED=" << seed + i;
  }
}

TEST(SoftmaxTest, OverSharedMemory) {
  const uint64_t seed = TestSeed(3000);
  for (uint64_t i = 0; i < 12; ++i) {
    ASSERT_EQ(Compare(seed + i, TransportKind::kUcxSharedMemory), "") << "ADJOIN_TEST_SEED=" << seed + i;
  }
}

// A row without any finite cell is NaN, as in LibTorch, and so is one with a NaN or plus infinity; others are not.
TEST(SoftmaxTest, RowsThatHaveNoAnswerAreNaN) {
  for (const bool log : {false, true}) {
    JobParts job;
    job.ranks = 4;
    job.batch = 5;
    job.x_shape = {6};
    job.layouts = LayoutText("x", {1, 4}, {2, 0, 3, 1}, {{1, {2, 0, 3, 1}}});
    job.layers =
        absl::StrCat("layer { name: \"y\" input: \"x\" x: \"x\" softmax { dim: 1", log ? " log: true" : "", " } }\n");
    auto plan = PlanOf(JobText(job), {{"data", 5}});
    ASSERT_TRUE(plan.ok()) << plan.status();
    Tensor x = RandomJobs(1).Normal({5, 6});
    x[0].fill_(kMinusInfinity);
    x[1][2] = -kMinusInfinity;
    x[2][5] = std::numeric_limits<double>::quiet_NaN();
    x[3].narrow(0, 0, 5).fill_(kMinusInfinity);
    StepInput input;
    input.fields = {{"x", x}, {"label", at::zeros({5}, at::kLong)}};
    auto ranks = RunStep(*plan, input);
    ASSERT_TRUE(ranks.ok()) << ranks.status();
    const Tensor expected = log ? at::log_softmax(x, 1) : at::softmax(x, 1);
    const ProgramPlan& program = plan->program(0);
    const Layout layout = *LayoutFromProto(program.value(program.layer(0).output()).layout());
    for (int rank = 0; rank < 4; ++rank) {
      const Tensor part = PartOf(expected, layout, rank), y = (*ranks)[rank].values.at("y");
      EXPECT_TRUE(at::allclose(y, part, 1e-12, 1e-12, /*equal_nan=*/true)) << "rank " << rank << "\n" << y << part;
    }
  }
}

TEST(SoftmaxTest, TwiceDifferentiable) {
  const uint64_t seed = TestSeed(5000);
  for (uint64_t i = 0; i < 60; ++i) {
    RandomJobs random(seed + i);
    JobParts job;
    const std::vector<int64_t> shape = {random.Between(1, 4), random.Between(1, 7), random.Between(1, 4)};
    job.ranks = random.Between(1, 6);
    job.batch = shape[0];
    job.x_shape = {shape[1], shape[2]};
    job.last_dims = 3;
    job.layouts = random.AnyLayout("x", shape, job.ranks, /*copies=*/false);
    const bool log = random.OneIn(2);
    job.layers =
        absl::StrCat("layer { name: \"y\" input: \"x\" x: \"x\" softmax { dim: 1", log ? " log: true" : "", " } }\n");
    auto plan = PlanOf(JobText(job), {{"data", job.batch}});
    ASSERT_TRUE(plan.ok()) << plan.status();
    MakeFieldsDifferentiable(*plan, "train");
    const Tensor x = random.Normal(shape).requires_grad_();
    const TwiceInput input{x.detach(), random.Normal(shape), random.Normal(shape)};
    const Tensor y = log ? at::log_softmax(x, 1) : at::softmax(x, 1);
    const Tensor once = torch::autograd::grad({y}, {x}, {input.u}, true, /*create_graph=*/true)[0];
    const Tensor twice = torch::autograd::grad({(once * input.v).sum()}, {x})[0];
    const auto results = SecondDerivative(*plan, input, seed + i);
    ASSERT_TRUE(results.ok()) << results.status();
    const Layout layout = *LayoutFromProto(plan->program(0).value(0).layout());
    for (int rank = 0; rank < job.ranks; ++rank) {
      EXPECT_TRUE(at::allclose((*results)[rank], PartOf(twice, layout, rank), 1e-10, 1e-10))
          << "rank " << rank << " ADJOIN_TEST_SEED=" << seed + i;
    }
  }
}

}  // namespace
}  // namespace adjoin
