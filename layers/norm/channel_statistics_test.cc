// Against the same in LibTorch's own operators, which differentiates them as often as it likes.
#include "layers/norm/channel_statistics.h"

#include <vector>

#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/rsqrt.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/autograd.h>

#include "gtest/gtest.h"

namespace adjoin {
namespace {

constexpr double kEps = 1e-5;
const std::vector<int64_t> kAllButChannels = {0, 2};

// Batch normalisation of `parts`, as if each were on a rank.
at::Tensor Ours(const std::vector<at::Tensor>& parts, const at::Tensor& weight, const at::Tensor& bias) {
  std::vector<ChannelStatistics> passes(parts.size());
  std::vector<at::Tensor> own, results;
  for (size_t i = 0; i < parts.size(); ++i) own.push_back(passes[i].Of(parts[i]));
  const at::Tensor all = MergeStatistics(at::stack(own));
  const at::Tensor scale = at::rsqrt(all[2] / all[0] + kEps) * weight;
  for (size_t i = 0; i < parts.size(); ++i) results.push_back(passes[i].Normalised(parts[i], all[1], scale, bias));
  return at::cat(results);
}

at::Tensor Theirs(const std::vector<at::Tensor>& parts, const at::Tensor& weight, const at::Tensor& bias) {
  const at::Tensor x = at::cat(parts).to(at::kDouble);
  const at::Tensor centered = x - x.mean(kAllButChannels, true);
  const at::Tensor variance = centered.square().mean(kAllButChannels, true);
  const auto wide = [](const at::Tensor& t) { return t.to(at::kDouble).reshape({1, -1, 1}); };
  return centered * at::rsqrt(variance + kEps) * wide(weight) + wide(bias);
}

struct Leaves {
  explicit Leaves(at::ScalarType type) {
    at::manual_seed(3);
    // Lengths around and above those of a block, and none.
    for (const std::vector<int64_t>& shape : std::vector<std::vector<int64_t>>{{2, 3, 5}, {1, 3, 5}, {0, 3, 5}}) {
      parts.push_back((at::randn(shape, at::kDouble) + 2).to(type).requires_grad_());
    }
    weight = at::randn({3}, at::kDouble).to(type).requires_grad_();
    bias = at::randn({3}, at::kDouble).to(type).requires_grad_();
    all = parts;
    all.push_back(weight);
    all.push_back(bias);
  }
  std::vector<at::Tensor> parts, all;
  at::Tensor weight, bias;
};

using Layer = at::Tensor (*)(const std::vector<at::Tensor>&, const at::Tensor&, const at::Tensor&);

std::vector<at::Tensor> Gradients(Layer layer, const Leaves& leaves) {
  const at::Tensor y = layer(leaves.parts, leaves.weight, leaves.bias);
  return torch::autograd::grad({(y * at::arange(y.numel(), y.options()).reshape(y.sizes()).sin()).sum()}, leaves.all);
}

std::vector<at::Tensor> SecondGradients(Layer layer, const Leaves& leaves) {
  const at::Tensor y = layer(leaves.parts, leaves.weight, leaves.bias);
  at::Tensor sum = at::zeros({}, at::kDouble);
  for (const at::Tensor& once : torch::autograd::grad({y.pow(3).sum()}, leaves.all, {}, true, true)) {
    sum = sum + once.to(at::kDouble).pow(2).sum();
  }
  return torch::autograd::grad({sum}, leaves.all);
}

void ExpectClose(const std::vector<at::Tensor>& actual, const std::vector<at::Tensor>& expected, double bound) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i) {
    EXPECT_TRUE(at::allclose(actual[i].to(at::kDouble), expected[i].to(at::kDouble), bound, bound))
        << "leaf " << i << "\n"
        << actual[i] << "\n"
        << expected[i];
  }
}

TEST(ChannelStatisticsTest, ValuesAndGradients) {
  const Leaves leaves(at::kDouble);
  ExpectClose({Ours(leaves.parts, leaves.weight, leaves.bias)}, {Theirs(leaves.parts, leaves.weight, leaves.bias)},
              1e-12);
  ExpectClose(Gradients(Ours, leaves), Gradients(Theirs, leaves), 1e-12);
  const Leaves single(at::kFloat);
  ExpectClose(Gradients(Ours, single), Gradients(Theirs, single), 1e-4);
}

TEST(ChannelStatisticsTest, SecondGradients) {
  const Leaves leaves(at::kDouble);
  ExpectClose(SecondGradients(Ours, leaves), SecondGradients(Theirs, leaves), 1e-9);
}

// What Normalised leaves for Of is of one backward pass only, and is not needed where x has no part in it.
TEST(ChannelStatisticsTest, PassesAfterEachOther) {
  const Leaves leaves(at::kDouble);
  const at::Tensor y = Ours(leaves.parts, leaves.weight, leaves.bias).square().sum();
  const auto grad = [&](const std::vector<at::Tensor>& of, bool create_graph) {
    return torch::autograd::grad({y}, of, {}, /*retain_graph=*/true, create_graph);
  };
  const auto expected = grad({leaves.parts[0], leaves.weight}, true);
  ExpectClose(grad({leaves.weight}, false), {expected[1]}, 1e-12);
  ExpectClose(grad({leaves.parts[0]}, false), {expected[0]}, 1e-12);
  ExpectClose(grad({leaves.weight}, false), {expected[1]}, 1e-12);
  ExpectClose(grad({leaves.parts[0]}, true), {expected[0]}, 1e-12);
}

TEST(ChannelStatisticsTest, LongChannels) {
  at::manual_seed(5);
  const at::Tensor x = at::randn({3, 2, 5000}, at::kDouble) + 1e5;
  const at::Tensor own = ChannelStatistics().Of(x.to(at::kFloat));
  const at::Tensor rounded = x.to(at::kFloat).to(at::kDouble);
  const at::Tensor mean = rounded.mean(kAllButChannels);
  ExpectClose(
      {own[0], own[1], own[2]},
      {at::full({2}, 15000.0, at::kDouble), mean, (rounded - mean.reshape({1, 2, 1})).square().sum(kAllButChannels)},
      1e-12);
}

}  // namespace
}  // namespace adjoin
