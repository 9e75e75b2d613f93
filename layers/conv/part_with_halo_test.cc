// Random parts within what a convolution reads, against LibTorch's convolution of the same tensor.
#include "layers/conv/part_with_halo.h"

#include <cstdint>
#include <random>
#include <vector>

#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/convolution.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/autograd.h>

#include "base/testing/test_seed.h"
#include "gtest/gtest.h"
#include "layers/conv/convolution_kernel.h"
#include "primitives/geometry/exchange_schedule.h"

namespace adjoin {
namespace {

struct Case {
  ConvolutionGeometry geometry;
  std::vector<int64_t> shape, weight_shape;
  Region own;
};

Case RandomCase(std::mt19937& random) {
  const auto pick = [&](int64_t lo, int64_t hi) { return lo + static_cast<int64_t>(random() % (hi - lo + 1)); };
  Case c;
  c.geometry.groups = pick(1, 2);
  c.shape = {pick(1, 3), c.geometry.groups * pick(1, 3)};
  c.weight_shape = {c.geometry.groups * pick(1, 3), c.shape[1] / c.geometry.groups};
  const int64_t spatial = pick(1, 3);
  for (int64_t i = 0; i < spatial; ++i) {
    c.weight_shape.push_back(pick(1, 3));
    c.geometry.stride.push_back(pick(1, 2));
    c.geometry.padding.push_back(pick(0, 1));
    c.geometry.dilation.push_back(pick(1, 2));
    c.shape.push_back(pick(6, 9));
  }
  c.own = {std::vector<int64_t>(c.shape.size(), 0), c.shape};
  for (size_t dim = 2; dim < c.shape.size(); ++dim) {
    // The halo is on both sides, on one, or on none.
    c.own.at[dim] = pick(0, 2);
    c.own.size[dim] = c.shape[dim] - c.own.at[dim] - pick(0, 2);
  }
  return c;
}

at::Tensor PartOf(const Case& c, at::Tensor read) {
  for (size_t dim = 0; dim < c.shape.size(); ++dim) {
    read = read.narrow(static_cast<int64_t>(dim), c.own.at[dim], c.own.size[dim]);
  }
  return read;
}

// The result, its gradients, and those of a function of them.
std::vector<at::Tensor> ResultAndGradients(const at::Tensor& y, const std::vector<at::Tensor>& leaves) {
  std::vector<at::Tensor> results = {y.detach()};
  for (const at::Tensor& g : torch::autograd::grad({(y * y).sum()}, leaves, {}, true, /*create_graph=*/true)) {
    results.push_back(g);
  }
  at::Tensor sum = at::zeros({}, y.options());
  for (size_t i = 1; i < results.size(); ++i) sum = sum + (results[i] * results[i]).sum();
  for (const at::Tensor& g : torch::autograd::grad({sum}, leaves)) results.push_back(g);
  return results;
}

TEST(PartWithHaloTest, ValuesAndTwoGradientsAreThoseOfLibTorch) {
  const uint64_t first = TestSeed(0);
  for (uint64_t seed = first; seed < first + 100; ++seed) {
    std::mt19937 random(seed);
    at::manual_seed(seed);
    const Case c = RandomCase(random);
    const auto leaf = [](std::vector<int64_t> shape) { return at::randn(shape, at::kDouble).requires_grad_(); };
    const std::vector<at::Tensor> leaves = {leaf(c.shape), leaf(c.weight_shape), leaf({c.weight_shape[0]})};
    const at::Tensor bias = seed % 3 == 0 ? at::Tensor() : leaves[2];
    // So that it has a gradient without a bias, too.
    const auto unused = [&] { return (leaves[2] * leaves[2]).sum(); };
    const at::Tensor expected = at::convolution(leaves[0], leaves[1], bias, c.geometry.stride, c.geometry.padding,
                                                c.geometry.dilation, false, {0}, c.geometry.groups);
    // The part is made of what is read here; in a layer it is the other way round.
    const at::Tensor found =
        ConvolveKeepingHaloApart(PartOf(c, leaves[0]).clone(), leaves[0], c.own, leaves[1], bias, c.geometry);
    ASSERT_TRUE(found.equal(expected)) << "ADJOIN_TEST_SEED=" << seed;
    const auto right = ResultAndGradients(expected + unused(), leaves),
               is = ResultAndGradients(found + unused(), leaves);
    for (size_t i = 0; i < right.size(); ++i) {
      ASSERT_LE((is[i] - right[i]).abs().max().item<double>(), 1e-12 * (1 + right[i].abs().max().item<double>()))
          << "result " << i << " ADJOIN_TEST_SEED=" << seed;
    }
  }
}

TEST(PartWithHaloTest, FirstGradientsAreTheSameBits) {
  const uint64_t first = TestSeed(0);
  for (uint64_t seed = first; seed < first + 50; ++seed) {
    std::mt19937 random(seed);
    at::manual_seed(seed);
    const Case c = RandomCase(random);
    const std::vector<at::Tensor> leaves = {at::randn(c.shape).requires_grad_(),
                                            at::randn(c.weight_shape).requires_grad_()};
    const at::Tensor expected = Convolve(leaves[0], leaves[1], {}, c.geometry);
    const at::Tensor found =
        ConvolveKeepingHaloApart(PartOf(c, leaves[0].detach()).clone(), leaves[0], c.own, leaves[1], {}, c.geometry);
    const auto right = torch::autograd::grad({(expected * expected).sum()}, leaves);
    const auto is = torch::autograd::grad({(found * found).sum()}, leaves);
    for (size_t i = 0; i < right.size(); ++i) EXPECT_TRUE(is[i].equal(right[i])) << i << " ADJOIN_TEST_SEED=" << seed;
  }
}

TEST(PartWithHaloTest, NothingOfWhatIsReadStays) {
  const at::Tensor part = at::randn({1, 2, 8, 8}), weight = at::randn({2, 2, 3, 3}).requires_grad_();
  at::Tensor read = at::randn({1, 2, 10, 10});
  const c10::Storage storage = read.storage();
  const at::Tensor y = ConvolveKeepingHaloApart(part, read, {{0, 0, 1, 1}, {1, 2, 8, 8}}, weight, {},
                                                {.stride = {1, 1}, .padding = {0, 0}, .dilation = {1, 1}});
  read.reset();
  EXPECT_TRUE(y.requires_grad());
  EXPECT_EQ(storage.use_count(), 1);
}

}  // namespace
}  // namespace adjoin
