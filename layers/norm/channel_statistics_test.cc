// Against the same in LibTorch's own operators, which differentiates them as often as it likes.
#include "layers/norm/channel_statistics.h"

#include <vector>

#include "gtest/gtest.h"

namespace adjoin {
namespace {

constexpr double kEps = 1e-5;
const std::vector<int64_t> kAllButChannels = {0, 2};

// Batch normalisation of `parts`, as if each lay on a rank.
torch::Tensor Ours(const std::vector<torch::Tensor>& parts, const torch::Tensor& weight, const torch::Tensor& bias) {
  std::vector<ChannelStatistics> passes(parts.size());
  std::vector<torch::Tensor> own, results;
  for (size_t i = 0; i < parts.size(); ++i) own.push_back(passes[i].Of(parts[i]));
  const torch::Tensor all = MergeStatistics(torch::stack(own));
  const torch::Tensor scale = torch::rsqrt(all[2] / all[0] + kEps) * weight;
  for (size_t i = 0; i < parts.size(); ++i) results.push_back(passes[i].Normalised(parts[i], all[1], scale, bias));
  return torch::cat(results);
}

torch::Tensor Theirs(const std::vector<torch::Tensor>& parts, const torch::Tensor& weight, const torch::Tensor& bias) {
  const torch::Tensor x = torch::cat(parts).to(torch::kFloat64);
  const torch::Tensor centered = x - x.mean(kAllButChannels, true);
  const torch::Tensor variance = centered.square().mean(kAllButChannels, true);
  const auto wide = [](const torch::Tensor& t) { return t.to(torch::kFloat64).reshape({1, -1, 1}); };
  return centered * torch::rsqrt(variance + kEps) * wide(weight) + wide(bias);
}

struct Leaves {
  explicit Leaves(torch::ScalarType type) {
    torch::manual_seed(3);
    // Lengths around and above those of a block, and none.
    for (const std::vector<int64_t>& shape : std::vector<std::vector<int64_t>>{{2, 3, 5}, {1, 3, 5}, {0, 3, 5}}) {
      parts.push_back((torch::randn(shape, torch::kFloat64) + 2).to(type).requires_grad_());
    }
    weight = torch::randn({3}, torch::kFloat64).to(type).requires_grad_();
    bias = torch::randn({3}, torch::kFloat64).to(type).requires_grad_();
    all = parts;
    all.push_back(weight);
    all.push_back(bias);
  }
  std::vector<torch::Tensor> parts, all;
  torch::Tensor weight, bias;
};

using Layer = torch::Tensor (*)(const std::vector<torch::Tensor>&, const torch::Tensor&, const torch::Tensor&);

std::vector<torch::Tensor> Gradients(Layer layer, const Leaves& leaves) {
  const torch::Tensor y = layer(leaves.parts, leaves.weight, leaves.bias);
  return torch::autograd::grad({(y * torch::arange(y.numel(), y.options()).reshape(y.sizes()).sin()).sum()},
                               leaves.all);
}

std::vector<torch::Tensor> SecondGradients(Layer layer, const Leaves& leaves) {
  const torch::Tensor y = layer(leaves.parts, leaves.weight, leaves.bias);
  torch::Tensor sum = torch::zeros({}, torch::kFloat64);
  for (const torch::Tensor& once : torch::autograd::grad({y.pow(3).sum()}, leaves.all, {}, true, true)) {
    sum = sum + once.to(torch::kFloat64).pow(2).sum();
  }
  return torch::autograd::grad({sum}, leaves.all);
}

void ExpectClose(const std::vector<torch::Tensor>& actual, const std::vector<torch::Tensor>& expected, double bound) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i) {
    EXPECT_TRUE(torch::allclose(actual[i].to(torch::kFloat64), expected[i].to(torch::kFloat64), bound, bound))
        << "leaf " << i << "\n" << actual[i] << "\n" << expected[i];
  }
}

TEST(ChannelStatisticsTest, ValuesAndGradients) {
  const Leaves leaves(torch::kFloat64);
  ExpectClose({Ours(leaves.parts, leaves.weight, leaves.bias)}, {Theirs(leaves.parts, leaves.weight, leaves.bias)},
              1e-12);
  ExpectClose(Gradients(Ours, leaves), Gradients(Theirs, leaves), 1e-12);
  const Leaves single(torch::kFloat32);
  ExpectClose(Gradients(Ours, single), Gradients(Theirs, single), 1e-4);
}

TEST(ChannelStatisticsTest, SecondGradients) {
  const Leaves leaves(torch::kFloat64);
  ExpectClose(SecondGradients(Ours, leaves), SecondGradients(Theirs, leaves), 1e-9);
}

// What Normalised leaves for Of is of one backward pass only, and is not needed where x has no part in it.
TEST(ChannelStatisticsTest, PassesAfterEachOther) {
  const Leaves leaves(torch::kFloat64);
  const torch::Tensor y = Ours(leaves.parts, leaves.weight, leaves.bias).square().sum();
  const auto grad = [&](const std::vector<torch::Tensor>& of, bool create_graph) {
    return torch::autograd::grad({y}, of, {}, /*retain_graph=*/true, create_graph);
  };
  const auto expected = grad({leaves.parts[0], leaves.weight}, true);
  ExpectClose(grad({leaves.weight}, false), {expected[1]}, 1e-12);
  ExpectClose(grad({leaves.parts[0]}, false), {expected[0]}, 1e-12);
  ExpectClose(grad({leaves.weight}, false), {expected[1]}, 1e-12);
  ExpectClose(grad({leaves.parts[0]}, true), {expected[0]}, 1e-12);
}

TEST(ChannelStatisticsTest, LongChannels) {
  torch::manual_seed(5);
  const torch::Tensor x = torch::randn({3, 2, 5000}, torch::kFloat64) + 1e5;
  const torch::Tensor own = ChannelStatistics().Of(x.to(torch::kFloat32));
  const torch::Tensor rounded = x.to(torch::kFloat32).to(torch::kFloat64);
  const torch::Tensor mean = rounded.mean(kAllButChannels);
  ExpectClose({own[0], own[1], own[2]},
              {torch::full({2}, 15000.0, torch::kFloat64), mean,
               (rounded - mean.reshape({1, 2, 1})).square().sum(kAllButChannels)},
              1e-12);
}

}  // namespace
}  // namespace adjoin
