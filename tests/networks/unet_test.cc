// examples/unet, both jobs, against plain torch::nn modules.
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <vector>

#include <torch/nn/functional.h>
#include <torch/types.h>

#include "tests/networks/network_comparison.h"

namespace adjoin {
namespace {

namespace nn = torch::nn;
namespace F = torch::nn::functional;

template <typename Conv, typename Options, typename Norm>
struct DoubleConv : nn::Module {
  DoubleConv(int64_t in, int64_t out)
      : conv1(Options(in, out, 3).padding(1).bias(false)),
        conv2(Options(out, out, 3).padding(1).bias(false)),
        bn1(out),
        bn2(out) {
    register_module("conv1", conv1);
    register_module("bn1", bn1);
    register_module("conv2", conv2);
    register_module("bn2", bn2);
  }
  torch::Tensor forward(const torch::Tensor& x) { return torch::relu(bn2(conv2(torch::relu(bn1(conv1(x)))))); }
  Conv conv1, conv2;
  Norm bn1, bn2;
};
using DoubleConv2d = DoubleConv<nn::Conv2d, nn::Conv2dOptions, nn::BatchNorm2d>;
using DoubleConv3d = DoubleConv<nn::Conv3d, nn::Conv3dOptions, nn::BatchNorm3d>;

struct UNet2d : nn::Module {
  UNet2d() {
    const auto up = [](int64_t in, int64_t out) {
      return nn::ConvTranspose2d(nn::ConvTranspose2dOptions(in, out, 2).stride(2));
    };
    down1 = register_module("down1", std::make_shared<DoubleConv2d>(1, 16));
    down2 = register_module("down2", std::make_shared<DoubleConv2d>(16, 32));
    bottom = register_module("bottom", std::make_shared<DoubleConv2d>(32, 64));
    up2 = register_module("up2", up(64, 32));
    left2 = register_module("left2", std::make_shared<DoubleConv2d>(64, 32));
    up1 = register_module("up1", up(32, 16));
    left1 = register_module("left1", std::make_shared<DoubleConv2d>(32, 16));
    head = register_module("head", nn::Conv2d(16, 3, 1));
  }
  torch::Tensor Loss(const Tensors& fields, Tensors& values) {
    const torch::Tensor x1 = down1->forward(fields.at("image"));
    const torch::Tensor x2 = down2->forward(torch::max_pool2d(x1, 2));
    torch::Tensor y = bottom->forward(torch::max_pool2d(x2, 2));
    values["bottom.relu2"] = y;
    values["skip2"] = y = torch::cat({x2, up2(y)}, 1);
    y = left2->forward(y);
    values["skip1"] = y = torch::cat({x1, up1(y)}, 1);
    values["head"] = y = head(left1->forward(y));
    return F::cross_entropy(y, fields.at("label"));
  }
  std::shared_ptr<DoubleConv2d> down1, down2, bottom, left2, left1;
  nn::ConvTranspose2d up2{nullptr}, up1{nullptr};
  nn::Conv2d head{nullptr};
};

// 1 - the mean over classes of (2 sum(p t) + 1) / (sum p + sum t + 1).
torch::Tensor SoftDice(const torch::Tensor& probability, const torch::Tensor& label) {
  const torch::Tensor truth = torch::one_hot(label, 3).movedim(-1, 1).to(probability.dtype());
  const std::vector<int64_t> dims = {0, 2, 3, 4};
  const torch::Tensor both = (probability * truth).sum(dims), either = probability.sum(dims) + truth.sum(dims);
  return 1 - ((2 * both + 1) / (either + 1)).mean();
}

struct UNet3d : nn::Module {
  UNet3d() {
    down1 = register_module("down1", std::make_shared<DoubleConv3d>(1, 8));
    down2 = register_module("down2", std::make_shared<DoubleConv3d>(8, 16));
    bottom = register_module("bottom", std::make_shared<DoubleConv3d>(16, 32));
    left2 = register_module("left2", std::make_shared<DoubleConv3d>(48, 16));
    left1 = register_module("left1", std::make_shared<DoubleConv3d>(24, 8));
    head = register_module("head", nn::Conv3d(8, 3, 1));
  }
  torch::Tensor Loss(const Tensors& fields, Tensors& values) {
    const auto up = [](const torch::Tensor& x) {
      return F::interpolate(x, F::InterpolateFuncOptions()
                                   .scale_factor(std::vector<double>{2, 2, 2})
                                   .mode(torch::kTrilinear)
                                   .align_corners(false));
    };
    const torch::Tensor x1 = down1->forward(fields.at("volume"));
    const torch::Tensor x2 = down2->forward(torch::max_pool3d(x1, 2));
    torch::Tensor y = bottom->forward(torch::avg_pool3d(x2, 2));
    values["up2"] = y = up(y);
    y = left2->forward(torch::cat({x2, y}, 1));
    values["skip1"] = y = torch::cat({x1, up(y)}, 1);
    values["head"] = y = head(left1->forward(y));
    const torch::Tensor probability = values["probability"] = torch::softmax(y, 1);
    return 0.5 * F::cross_entropy(y, fields.at("label")) + 0.5 * SoftDice(probability, fields.at("label"));
  }
  std::shared_ptr<DoubleConv3d> down1, down2, bottom, left2, left1;
  nn::Conv3d head{nullptr};
};

template <typename Module>
NetworkCase CaseOf(const std::string& job) {
  auto module = std::make_shared<Module>();
  NetworkCase network;
  network.job = job;
  network.classes = {{"label", 3}};
  network.module = module;
  network.loss = [module](const Tensors& fields, const Tensors&, Tensors& values) {
    return module->Loss(fields, values);
  };
  return network;
}

TEST(UNetNetworks, UNet2d) {
  NetworkCase network = CaseOf<UNet2d>("examples/unet/unet2d.textproto");
  network.edit = [](JobSpec& job) {
    SetFieldShape(job, "image", {1, 20, 28});
    SetFieldShape(job, "label", {20, 28});
    job.mutable_train()->set_batch(2);
  };
  network.parts = {{3, {{"grid", {1, 1, 1, 3}}}}, {6, {{"grid", {1, 1, 3, 2}}}}};
  const NetworkComparison comparison(network, TestSeed(1));
  for (const int ranks : kNumbersOfRanks) EXPECT_EQ(comparison.DifferencesOn(ranks), "");
}

TEST(UNetNetworks, UNet3d) {
  NetworkCase network = CaseOf<UNet3d>("examples/unet/unet3d.textproto");
  network.edit = [](JobSpec& job) { job.mutable_train()->set_batch(1); };
  network.parts = {{3, {{"grid", {1, 1, 1, 1, 3}}}}, {6, {{"grid", {1, 1, 1, 3, 2}}}}};
  const NetworkComparison comparison(network, TestSeed(2));
  for (const int ranks : kNumbersOfRanks) EXPECT_EQ(comparison.DifferencesOn(ranks), "");
}

}  // namespace
}  // namespace adjoin
