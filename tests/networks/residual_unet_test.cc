// examples/residual-unet against a plain torch::nn module.
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <torch/nn/functional.h>
#include <torch/types.h>

#include "tests/networks/network_comparison.h"

namespace adjoin {
namespace {

namespace nn = torch::nn;
namespace F = torch::nn::functional;
using torch::Tensor;

nn::Conv3d Conv(int64_t in, int64_t out, int64_t kernel, int64_t stride = 1) {
  return nn::Conv3d(nn::Conv3dOptions(in, out, kernel).stride(stride).padding(kernel / 2));
}

// Norm, ReLU, convolution, twice, beside the input itself or, where the channels change, its 1x1x1 convolution.
struct Residual : nn::Module {
  Residual(int64_t in, int64_t out) {
    norm1 = register_module("norm1", nn::GroupNorm(4, in));
    conv1 = register_module("conv1", Conv(in, out, 3));
    norm2 = register_module("norm2", nn::GroupNorm(4, out));
    conv2 = register_module("conv2", Conv(out, out, 3));
    if (in != out) shortcut = register_module("shortcut", Conv(in, out, 1));
  }
  Tensor forward(const Tensor& x) {
    const Tensor changed = conv2(torch::relu(norm2(conv1(torch::relu(norm1(x))))));
    return (shortcut.is_empty() ? x : shortcut(x)) + changed;
  }
  nn::GroupNorm norm1{nullptr}, norm2{nullptr};
  nn::Conv3d conv1{nullptr}, conv2{nullptr}, shortcut{nullptr};
};

// GroupNorm of the layer "last.norm".
struct Last : nn::Module {
  Last() { norm = register_module("norm", nn::GroupNorm(4, 8)); }
  nn::GroupNorm norm{nullptr};
};

// 1 - the mean over classes of (2 sum(p t) + 1) / (sum p + sum t + 1).
Tensor SoftDice(const Tensor& probability, const Tensor& label) {
  const Tensor truth = torch::one_hot(label, 3).movedim(-1, 1).to(probability.dtype());
  const std::vector<int64_t> dims = {0, 2, 3, 4};
  const Tensor both = (probability * truth).sum(dims), either = probability.sum(dims) + truth.sum(dims);
  return 1 - ((2 * both + 1) / (either + 1)).mean();
}

struct ResidualUNet : nn::Module {
  ResidualUNet() {
    stem = register_module("stem", Conv(1, 8, 3));
    down1 = register_module("down1", Conv(8, 16, 3, /*stride=*/2));
    down2 = register_module("down2", Conv(16, 32, 3, /*stride=*/2));
    up2 = register_module("up2", nn::ConvTranspose3d(nn::ConvTranspose3dOptions(32, 16, 2).stride(2)));
    up1 = register_module("up1", Conv(16, 8, 1));
    head = register_module("head", Conv(8, 3, 1));
    level1 = register_module("level1", std::make_shared<Residual>(8, 8));
    level2 = register_module("level2", std::make_shared<Residual>(16, 16));
    level3 = register_module("level3", std::make_shared<Residual>(32, 32));
    left2 = register_module("left2", std::make_shared<Residual>(32, 16));
    left1 = register_module("left1", std::make_shared<Residual>(16, 8));
    last = register_module("last", std::make_shared<Last>());
  }
  Tensor Loss(const Tensors& fields, Tensors& values) {
    const Tensor x1 = values["level1"] = level1->forward(stem(fields.at("volume")));
    const Tensor x2 = level2->forward(down1(x1));
    Tensor y = values["level3"] = level3->forward(down2(x2));
    values["skip2"] = y = torch::cat({x2, up2(y)}, 1);
    y = left2->forward(y);
    y = F::interpolate(y, F::InterpolateFuncOptions()
                              .scale_factor(std::vector<double>{2, 2, 2})
                              .mode(torch::kTrilinear)
                              .align_corners(false));
    values["left1"] = y = left1->forward(torch::cat({x1, up1(y)}, 1));
    values["head"] = y = head(torch::relu(last->norm(y)));
    const Tensor probability = values["probability"] = torch::softmax(y, 1);
    return 0.5 * F::cross_entropy(y, fields.at("label")) + 0.5 * SoftDice(probability, fields.at("label"));
  }
  nn::Conv3d stem{nullptr}, down1{nullptr}, down2{nullptr}, up1{nullptr}, head{nullptr};
  nn::ConvTranspose3d up2{nullptr};
  std::shared_ptr<Residual> level1, level2, level3, left2, left1;
  std::shared_ptr<Last> last;
};

TEST(ResidualUNetNetwork, EqualsSerial) {
  auto module = std::make_shared<ResidualUNet>();
  NetworkCase network;
  network.job = "examples/residual-unet/residual-unet.textproto";
  network.classes = {{"label", 3}};
  network.module = module;
  network.loss = [module](const Tensors& fields, const Tensors&, Tensors& values) {
    return module->Loss(fields, values);
  };
  network.edit = [](JobSpec& job) {
    SetFieldShape(job, "volume", {1, 16, 20, 12});
    SetFieldShape(job, "label", {16, 20, 12});
    job.mutable_train()->set_batch(2);
  };
  // On 3 ranks cuts go through windows of all levels, on 6 the batch is cut as well.
  network.parts = {{3, {{"grid", {1, 1, 3, 1, 1}}}}, {6, {{"grid", {2, 1, 1, 3, 1}}}}};
  const NetworkComparison comparison(network, TestSeed(3));
  for (const int ranks : kNumbersOfRanks) EXPECT_EQ(comparison.DifferencesOn(ranks), "");
}

}  // namespace
}  // namespace adjoin
