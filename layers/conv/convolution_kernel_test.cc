// Values and gradients in float32, where freed memory is full of NaN, against LibTorch's in float64, which are no
// oneDNN's.
#include "layers/conv/convolution_kernel.h"

#include <limits>
#include <random>
#include <string>
#include <vector>

#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/convolution.h>
#include <ATen/ops/full.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/autograd.h>

#include "base/testing/test_seed.h"
#include "gtest/gtest.h"

namespace adjoin {
namespace {

// What a kernel allocates next holds NaN where it writes nothing.
void FillFreedMemoryWithNan(std::mt19937& random) {
  std::vector<at::Tensor> freed;
  for (int64_t cells = 16; cells <= 1 << 18; cells *= 2) {
    for (int64_t i = 0; i < (cells <= 1 << 14 ? 20 : 4); ++i) {
      freed.push_back(at::full({cells + static_cast<int64_t>(random() % cells)},
                               std::numeric_limits<float>::quiet_NaN(), at::kFloat));
    }
  }
}

struct Case {
  ConvolutionGeometry geometry;
  std::vector<int64_t> x_shape, weight_shape;
  int64_t outputs = 0;
};

// The weight's first dim has `blocked` channels in each group.
Case RandomCase(std::mt19937& random, bool transposed, int64_t blocked) {
  const auto pick = [&](int lo, int hi) { return lo + static_cast<int64_t>(random() % (hi - lo + 1)); };
  Case c;
  c.geometry.transposed = transposed;
  c.geometry.groups = pick(0, 2) == 0 ? pick(2, 3) : 1;
  const int64_t spatial = pick(1, 3), other = pick(1, 20), largest = spatial == 1 ? 200 : spatial == 2 ? 24 : 10;
  c.x_shape = {pick(2, 5), c.geometry.groups * (transposed ? blocked : other)};
  c.weight_shape = {c.geometry.groups * blocked, other};
  c.outputs = c.geometry.groups * (transposed ? other : blocked);
  for (int64_t i = 0; i < spatial; ++i) {
    c.weight_shape.push_back(pick(1, 4));
    c.geometry.stride.push_back(pick(1, 2));
    c.geometry.dilation.push_back(pick(1, 2));
    // A transposed result has cells, too.
    c.geometry.padding.push_back(pick(0, static_cast<int>((c.weight_shape.back() - 1) / 2)));
    c.x_shape.push_back(pick(8, static_cast<int>(largest)));
  }
  return c;
}

at::Tensor Reference(const Case& c, const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
  return at::convolution(x, weight, bias, c.geometry.stride, c.geometry.padding, c.geometry.dilation,
                         c.geometry.transposed, {0}, c.geometry.groups);
}

// The result, gradients of x, weight and bias, and of a function of these, once more. The result's gradient depends on
// all.
std::vector<at::Tensor> ResultAndGradients(const Case& c, const at::Tensor& x, const at::Tensor& weight,
                                           const at::Tensor& bias, bool reference, std::mt19937& random) {
  const std::vector<at::Tensor> leaves = {x, weight, bias};
  if (!reference) FillFreedMemoryWithNan(random);
  const at::Tensor y = reference ? Reference(c, x, weight, bias) : Convolve(x, weight, bias, c.geometry);
  std::vector<at::Tensor> results = {y.detach()};
  const at::Tensor loss = (y * y).mean();
  if (!reference) FillFreedMemoryWithNan(random);
  for (const at::Tensor& g : torch::autograd::grad({loss}, leaves, {}, true, /*create_graph=*/true)) {
    results.push_back(g);
  }
  at::Tensor sum = at::zeros({}, x.options());
  for (size_t i = 1; i < results.size(); ++i) sum = sum + (results[i] * results[i]).sum();
  for (const at::Tensor& g : torch::autograd::grad({sum}, leaves)) results.push_back(g);
  return results;
}

struct Kind {
  bool transposed, whole_blocks;
};

class ConvolutionKernelTest : public testing::TestWithParam<Kind> {};

TEST_P(ConvolutionKernelTest, ValuesAndTwoGradientsAreThoseOfFloat64) {
  const auto [transposed, whole_blocks] = GetParam();
  const uint64_t first = TestSeed(0);
  for (uint64_t seed = first; seed < first + 60; ++seed) {
    std::mt19937 random(seed);
    at::manual_seed(seed);
    const int64_t blocked = std::vector<int64_t>{4, 8, 4, 8, 1, 3, 5, 12, 16, 20}[seed % 10];
    Case c = RandomCase(random, transposed, blocked);
    c.geometry.whole_blocks = whole_blocks;
    const std::vector<at::Tensor> leaves = {at::randn(c.x_shape).requires_grad_(),
                                            at::randn(c.weight_shape).requires_grad_(),
                                            at::randn({c.outputs}).requires_grad_()};
    std::vector<at::Tensor> wide;
    for (const at::Tensor& leaf : leaves) wide.push_back(leaf.detach().to(at::kDouble).requires_grad_());
    const auto expected = ResultAndGradients(c, wide[0], wide[1], wide[2], /*reference=*/true, random);
    const auto found = ResultAndGradients(c, leaves[0], leaves[1], leaves[2], /*reference=*/false, random);
    ASSERT_EQ(found.size(), expected.size());
    for (size_t i = 0; i < found.size(); ++i) {
      ASSERT_EQ(found[i].sizes(), expected[i].sizes()) << "result " << i << " ADJOIN_TEST_SEED=" << seed;
      ASSERT_TRUE(at::isfinite(found[i]).all().item<bool>()) << "result " << i << " ADJOIN_TEST_SEED=" << seed;
      const double largest = expected[i].abs().max().item<double>();
      const double rounding = i < 4 ? 1e-4 : 1e-3;  // in second gradients, sums cancel
      EXPECT_LE((found[i].to(at::kDouble) - expected[i]).abs().max().item<double>(), rounding * largest)
          << "result " << i << " ADJOIN_TEST_SEED=" << seed;
    }
  }
}

// As it is on this machine, and with whole blocks whether they are needed or not.
INSTANTIATE_TEST_SUITE_P(All, ConvolutionKernelTest,
                         testing::Values(Kind{false, ConvolutionsNeedWholeBlocks()},
                                         Kind{true, ConvolutionsNeedWholeBlocks()}, Kind{false, true},
                                         Kind{true, true}),
                         [](const auto& info) {
                           return std::string(info.param.transposed ? "transposed" : "plain") +
                                  (info.index < 2 ? "" : "_in_whole_blocks");
                         });

TEST(ConvolveBackwardTest, WhatIsNotWantedIsUndefined) {
  ConvolutionGeometry geometry = {{1, 1}, {1, 1}, {1, 1}};
  const at::Tensor x = at::randn({2, 3, 8, 8}), weight = at::randn({4, 3, 3, 3}), of_result = at::randn({2, 4, 8, 8});
  for (int wanted = 0; wanted < 16; ++wanted) {
    const bool of_x = wanted & 1, of_weight = wanted & 2, of_bias = wanted & 4;
    geometry.whole_blocks = wanted & 8;
    const ConvolutionGradients made = ConvolveBackward(of_result, x, weight, geometry, {of_x, of_weight, of_bias});
    EXPECT_EQ(made.x.defined(), of_x) << wanted;
    EXPECT_EQ(made.weight.defined(), of_weight) << wanted;
    EXPECT_EQ(made.bias.defined(), of_bias) << wanted;
  }
}

}  // namespace
}  // namespace adjoin
