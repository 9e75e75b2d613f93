// The local kernel of max pooling, rank by rank without a job around it, on what a loss cannot take: ties of minus
// infinities, NaNs, windows of padding alone; values, indices and gradients against LibTorch's on the whole input.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <ATen/ops/adaptive_avg_pool2d.h>
#include <ATen/ops/adaptive_max_pool2d.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/avg_pool2d.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/autograd.h>

#include <ATen/TensorOperators.h>
#include <google/protobuf/text_format.h>

#include "absl/strings/str_cat.h"
#include "layers/builtin/builtin_layers.h"
#include "layers/builtin/builtin_rules.h"
#include "layers/layer.h"
#include "layers/pool/pool_case.h"
#include "layers/role_movements.h"
#include "layers/rules/layer_rule.h"
#include "layers/rules/named_layouts.h"
#include "layers/rules/roles.h"
#include "primitives/geometry/box.h"
#include "primitives/geometry/layout.h"
#include "primitives/geometry/reading.h"
#include "primitives/tape.h"
#include "tests/vs_serial/partitioned_run.h"
#include "tests/vs_serial/random_jobs.h"

namespace adjoin {

absl::StatusOr<std::unique_ptr<LayerModule>> BuildPool(LayerContext context);

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

LayerOutcome OutcomeOf(const std::string& text, const std::vector<int64_t>& x_shape) {
  JobSpec spec;
  EXPECT_TRUE(
      google::protobuf::TextFormat::ParseFromString(absl::StrCat("ranks: 1 layer { name: \"y\" ", text, " }"), &spec));
  const NamedLayouts named = NamedLayouts::Create(spec).value();
  const std::vector<Layout> inputs = {Layout::Owner(x_shape, DType::kFloat64, 0)};
  return (*BuiltinLayerRules().Find("pool"))({spec.layer(0), inputs, named, DType::kFloat64}).value();
}

// What a rank that computes the outputs `part` gets, and what its layer makes of that.
at::Tensor PartOfPool(const LayerOutcome& outcome, const at::Tensor& x, const Box& part) {
  LayerContext context;
  *context.plan.mutable_spec() = outcome.spec;
  context.compute_shape = part.Shape();
  context.input_shapes = {x.sizes().vec()};
  context.roles = std::make_shared<RoleMovements>("the layer");
  context.roles->Add(kRoleInput);
  context.roles->Add(kRoleOutput);
  context.reads.resize(1);
  at::Tensor local = x.narrow(0, part[0].lo, part[0].size()).narrow(1, part[1].lo, part[1].size());
  for (const auto& [dim, reading] : outcome.input[0].readings) {
    const int64_t n = x.size(dim);
    const Interval reads = reading.Reads(part[dim], n);
    context.reads[0].emplace(dim, LocalReads{reading, part[dim], n, {}});
    std::vector<int64_t> padding(2 * (x.dim() - dim), 0);
    padding[padding.size() - 2] = std::max<int64_t>(0, -reads.lo);
    padding[padding.size() - 1] = std::max<int64_t>(0, reads.hi - n);
    local = at::constant_pad_nd(local, padding, outcome.input[0].fill)
                .narrow(dim, reads.lo + padding[padding.size() - 2], reads.size());
  }
  auto layer = BuiltinLayers().Build(std::move(context));
  EXPECT_TRUE(layer.ok()) << layer.status();
  Tape tape;
  return (*layer)->Forward({local}, tape);
}

// Every part of random cuts of all dims of the output, put together.
at::Tensor Pool(RandomJobs& random, const LayerOutcome& outcome, const at::Tensor& x) {
  std::vector<int64_t> shape = outcome.output.shape();
  std::vector<std::vector<int64_t>> sizes;
  for (int64_t extent : shape) sizes.push_back(random.Sizes(extent, random.Between(1, 3)));
  const auto concatenated = [&](const auto& self, std::vector<Interval> done) -> at::Tensor {
    const size_t dim = done.size();
    if (dim == shape.size()) return PartOfPool(outcome, x, Box(std::move(done)));
    std::vector<at::Tensor> parts;
    int64_t lo = 0;
    for (int64_t size : sizes[dim]) {
      done.push_back({lo, lo + size});
      parts.push_back(self(self, done));
      done.pop_back();
      lo += size;
    }
    return at::cat(parts, static_cast<int64_t>(dim));
  };
  return concatenated(concatenated, {});
}

// Whether a window has no element of the input: LibTorch's gradient then goes to another element, or beyond
// the tensor.
bool SeesPaddingOnly(const PoolCase& c, const std::vector<int64_t>& y_shape) {
  for (size_t i = 0; i < c.kernel.size(); ++i) {
    for (int64_t output = 0; output < y_shape[i + 2]; ++output) {
      bool inside = false;
      for (int64_t tap = 0; tap < c.kernel[i]; ++tap) {
        const int64_t at = output * c.stride[i] - c.pad_lo[i] + tap * c.dilation[i];
        inside = inside || (at >= 0 && at < c.extent[i]);
      }
      if (!inside) return true;
    }
  }
  return false;
}

struct Counts {
  int padding_only = 0;
  int lowest = 0;
  int nans = 0;
};

void CompareCase(uint64_t seed, Counts& counts) {
  RandomJobs random(seed);
  const PoolKind kind = random.OneIn(3) ? PoolKind::kAdaptiveMax : PoolKind::kMax;
  const PoolCase c = RandomPoolCase(random, kind, static_cast<int>(random.Between(1, 3)), /*symmetric=*/true);
  std::vector<int64_t> shape = {random.Between(1, 2), random.Between(1, 3)};
  shape.insert(shape.end(), c.extent.begin(), c.extent.end());
  at::Tensor x = random.Normal(shape).round();
  const int64_t what = random.Between(1, 3);
  if (what != 1) x = at::where(random.Normal(shape).gt(-0.5), at::full_like(x, -kInfinity), x);
  if (what == 3) x = at::where(random.Normal(shape).gt(1), at::full_like(x, NAN), x);
  x.requires_grad_();

  const auto [y, indices] = SerialMaxPoolWithIndices(x, c);
  const at::Tensor actual = Pool(random, OutcomeOf(c.Text(), shape), x);
  const at::Tensor found = Pool(random, OutcomeOf(c.Text(/*return_indices=*/true), shape), x);
  ASSERT_EQ(actual.sizes(), y.sizes());
  ASSERT_EQ(found.scalar_type(), at::kLong);
  EXPECT_TRUE(at::allclose(actual, y, 0, 0, /*equal_nan=*/true)) << actual << y;
  EXPECT_TRUE(found.equal(indices)) << found << indices << x;
  counts.lowest += y.eq(-kInfinity).any().item<bool>();
  counts.nans += y.isnan().any().item<bool>();
  if (!c.IsAdaptive() && SeesPaddingOnly(c, y.sizes().vec())) {
    ++counts.padding_only;
    return;
  }
  const at::Tensor cotangent = random.Normal(y.sizes().vec());
  const at::Tensor gradient = torch::autograd::grad({actual}, {x}, {cotangent})[0];
  EXPECT_TRUE(at::allclose(gradient, torch::autograd::grad({y}, {x}, {cotangent})[0], 1e-12, 1e-12)) << gradient << x;
}

TEST(MaxPoolKernelTest, ValuesIndicesAndGradientsAsLibTorchs) {
  const uint64_t seed = TestSeed(100);
  Counts counts;
  for (uint64_t i = 0; i < 600 && !HasFailure(); ++i) {
    SCOPED_TRACE(absl::StrCat("ADJOIN_TEST_SEED=", seed + i));
    CompareCase(seed + i, counts);
  }
  EXPECT_GT(counts.padding_only, 2);
  EXPECT_GT(counts.lowest, 50);
  EXPECT_GT(counts.nans, 30);
}

TEST(MaxPoolKernelTest, AWindowOfPaddingAlonePassesNoGradientOn) {
  // Windows of 2 with dilation 3: the first one reads cells -1 and 2 of two.
  const LayerOutcome outcome =
      OutcomeOf("pool { mode: 'max' window { kernel: 2 dilation: 3 stride: 1 pad_lo: 1 } }", {1, 1, 2});
  const at::Tensor x = at::ones({1, 1, 2}, at::kDouble).requires_grad_();
  const at::Tensor y = PartOfPool(outcome, x, Box::Whole({1, 1, 1}));
  EXPECT_EQ(y.item<double>(), -kInfinity);
  EXPECT_TRUE(torch::autograd::grad({y.sum()}, {x})[0].equal(at::zeros_like(x)));
}

TEST(MaxPoolKernelTest, TwiceDifferentiable) {
  RandomJobs random(3);
  for (const char* op : {"pool { mode: 'max' adaptive_size: [3, 2] }", "pool { mode: 'avg' adaptive_size: [3, 2] }",
                         "pool { mode: 'avg' window { kernel: 3 pad_lo: 1 } ceil_mode: true }"}) {
    const at::Tensor x = random.Normal({1, 2, 7, 5}).requires_grad_();
    const at::Tensor y = Pool(random, OutcomeOf(op, {1, 2, 7, 5}), x * x * x);
    const at::Tensor once = torch::autograd::grad({y.pow(2).sum()}, {x}, {}, true, /*create_graph=*/true)[0];
    const at::Tensor twice = torch::autograd::grad({once.pow(2).sum()}, {x})[0];
    const at::Tensor cube = x * x * x;
    const at::Tensor serial =
        std::string(op).find("max") != std::string::npos        ? std::get<0>(at::adaptive_max_pool2d(cube, {3, 2}))
        : std::string(op).find("adaptive") != std::string::npos ? at::adaptive_avg_pool2d(cube, {3, 2})
                                                                : at::avg_pool2d(cube, {3, 3}, {3, 3}, {1, 1}, true);
    const at::Tensor serial_once = torch::autograd::grad({serial.pow(2).sum()}, {x}, {}, true, true)[0];
    const at::Tensor serial_twice = torch::autograd::grad({serial_once.pow(2).sum()}, {x})[0];
    EXPECT_TRUE(at::allclose(once, serial_once, 1e-10, 1e-10)) << op;
    EXPECT_TRUE(at::allclose(twice, serial_twice, 1e-10, 1e-10)) << op;
  }
}

}  // namespace
}  // namespace adjoin
