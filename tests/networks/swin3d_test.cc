// examples/swin3d against the same network on one rank, written with plain LibTorch after torchvision's
// SwinTransformerBlock.
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <vector>

#include <torch/nn/functional.h>
#include <torch/types.h>

#include "tests/networks/network_comparison.h"

namespace adjoin {
namespace {

namespace nn = torch::nn;
namespace F = torch::nn::functional;
using torch::Tensor;

constexpr int64_t kWindow = 4, kCells = kWindow * kWindow * kWindow, kHeads = 3, kChannels = 12, kHidden = 48;
constexpr int64_t kWidth = kChannels / kHeads;

// [n, z, y, x, c] to [n * windows, cells, c].
Tensor Windows(const Tensor& x) {
  const int64_t n = x.size(0), z = x.size(1) / kWindow, y = x.size(2) / kWindow, w = x.size(3) / kWindow;
  return x.view({n, z, kWindow, y, kWindow, w, kWindow, x.size(4)})
      .permute({0, 1, 3, 5, 2, 4, 6, 7})
      .reshape({-1, kCells, x.size(4)});
}

Tensor Volume(const Tensor& windows, const Tensor& like) {
  const int64_t n = like.size(0), z = like.size(1) / kWindow, y = like.size(2) / kWindow, w = like.size(3) / kWindow;
  return windows.view({n, z, y, w, kWindow, kWindow, kWindow, kChannels})
      .permute({0, 1, 4, 2, 5, 3, 6, 7})
      .reshape(like.sizes());
}

struct Attention : nn::Module {
  explicit Attention(int64_t shift) : shift(shift) {
    qkv = register_module("qkv", nn::Linear(kChannels, 3 * kChannels));
    proj = register_module("proj", nn::Linear(kChannels, kChannels));
    table = register_parameter("relative_position_bias_table",
                               torch::randn({(2 * kWindow - 1) * (2 * kWindow - 1) * (2 * kWindow - 1), kHeads}));
  }

  Tensor Bias() const {
    const Tensor at = torch::arange(kWindow);
    const auto grid = torch::meshgrid({at, at, at}, "ij");
    const Tensor places = torch::stack({grid[0].flatten(), grid[1].flatten(), grid[2].flatten()});
    const Tensor apart = places.unsqueeze(2) - places.unsqueeze(1) + kWindow - 1;
    const Tensor index = (apart[0] * (2 * kWindow - 1) + apart[1]) * (2 * kWindow - 1) + apart[2];
    return table.index_select(0, index.flatten()).view({kCells, kCells, kHeads}).permute({2, 0, 1});
  }

  // The mask for shifts by half a window: -100 between the parts of a last window that come from two ends.
  Tensor Mask(const Tensor& x) const {
    Tensor part = torch::zeros({1, x.size(1), x.size(2), x.size(3), 1});
    int number = 0;
    const auto slices = [this](int64_t n) {
      return std::vector<std::pair<int64_t, int64_t>>{{0, n - kWindow}, {n - kWindow, n - shift}, {n - shift, n}};
    };
    for (const auto& [z0, z1] : slices(x.size(1))) {
      for (const auto& [y0, y1] : slices(x.size(2))) {
        for (const auto& [x0, x1] : slices(x.size(3))) {
          part.slice(1, z0, z1).slice(2, y0, y1).slice(3, x0, x1).fill_(number++);
        }
      }
    }
    const Tensor of = Windows(part).squeeze(-1);
    return (of.unsqueeze(1) != of.unsqueeze(2)).to(torch::kFloat64) * -100.0;
  }

  Tensor forward(const Tensor& input) {
    const int64_t n = input.size(0), most = input.size(3);
    Tensor x = F::pad(input, F::PadFuncOptions({0, 0, 0, (kWindow - most % kWindow) % kWindow}));
    if (shift > 0) x = torch::roll(x, {-shift, -shift, -shift}, {1, 2, 3});
    const Tensor windows = Windows(x);
    const Tensor three = qkv(windows).view({-1, kCells, 3, kHeads, kWidth}).permute({2, 0, 3, 1, 4});
    Tensor scores = three[0].matmul(three[1].transpose(-2, -1)) / std::sqrt(static_cast<double>(kWidth)) + Bias();
    if (shift > 0) {
      scores = scores.view({n, -1, kHeads, kCells, kCells}) + Mask(x).unsqueeze(1).unsqueeze(0);
      scores = scores.view({-1, kHeads, kCells, kCells});
    }
    const Tensor values = torch::softmax(scores, -1).matmul(three[2]).transpose(1, 2).reshape({-1, kCells, kChannels});
    Tensor y = Volume(proj(values), x);
    if (shift > 0) y = torch::roll(y, {shift, shift, shift}, {1, 2, 3});
    return y.narrow(3, 0, most);
  }

  const int64_t shift;
  nn::Linear qkv{nullptr}, proj{nullptr};
  Tensor table;
};

struct Block : nn::Module {
  explicit Block(int64_t shift) {
    norm1 = register_module("norm1", nn::LayerNorm(nn::LayerNormOptions({kChannels})));
    attn = register_module("attn", std::make_shared<Attention>(shift));
    norm2 = register_module("norm2", nn::LayerNorm(nn::LayerNormOptions({kChannels})));
    mlp = register_module("mlp", nn::Sequential(nn::Linear(kChannels, kHidden), nn::GELU(), nn::Dropout(0.0),
                                                nn::Linear(kHidden, kChannels)));
  }
  Tensor forward(const Tensor& input) {
    const Tensor x = input + attn->forward(norm1(input));
    return x + mlp->forward(norm2(x));
  }
  nn::LayerNorm norm1{nullptr}, norm2{nullptr};
  std::shared_ptr<Attention> attn;
  nn::Sequential mlp{nullptr};
};

struct Swin : nn::Module {
  Swin() {
    patch = register_module("patch", nn::Conv3d(nn::Conv3dOptions(1, kChannels, 2).stride(2)));
    patch_norm = register_module("patch_norm", nn::LayerNorm(nn::LayerNormOptions({kChannels})));
    block0 = register_module("block0", std::make_shared<Block>(0));
    block1 = register_module("block1", std::make_shared<Block>(kWindow / 2));
    norm = register_module("norm", nn::LayerNorm(nn::LayerNormOptions({kChannels})));
    head = register_module("head", nn::Linear(kChannels, 3));
  }
  Tensor Loss(const Tensors& fields, Tensors& values) {
    Tensor y = patch_norm(patch(fields.at("volume")).permute({0, 2, 3, 4, 1}));
    values["block0"] = y = block0->forward(y);
    values["block1"] = y = block1->forward(y);
    values["head"] = y = head(norm(y).mean({1, 2, 3}));
    return F::cross_entropy(y, fields.at("label"));
  }
  nn::Conv3d patch{nullptr};
  nn::LayerNorm patch_norm{nullptr}, norm{nullptr};
  std::shared_ptr<Block> block0, block1;
  nn::Linear head{nullptr};
};

TEST(Swin3dTest, EqualsSerial) {
  auto net = std::make_shared<Swin>();
  NetworkComparison network(
      {.job = "examples/swin3d/swin3d.textproto",
       .edit = [](JobSpec& job) { job.mutable_train()->set_batch(2); },
       .classes = {{"label", 3}},
       .module = net,
       .loss = [&](const Tensors& fields, const Tensors&, Tensors& values) { return net->Loss(fields, values); },
       // Uneven and empty parts: two windows along each dim.
       .parts = {{3, {{"grid", {1, 1, 3, 1, 1}}}}, {6, {{"grid", {1, 1, 3, 2, 1}}}}}},
      TestSeed(1));
  for (const int ranks : kNumbersOfRanks) EXPECT_EQ(network.DifferencesOn(ranks), "") << ranks << " ranks";
}

}  // namespace
}  // namespace adjoin
