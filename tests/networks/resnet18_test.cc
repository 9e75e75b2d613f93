// examples/resnet18 against plain torch::nn modules.
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <torch/nn/functional.h>
#include <torch/types.h>

#include "absl/strings/str_cat.h"
#include "proto/plan.pb.h"
#include "tests/networks/network_comparison.h"

namespace adjoin {
namespace {

namespace nn = torch::nn;
namespace F = torch::nn::functional;

struct BasicBlock : nn::Module {
  BasicBlock(int64_t in, int64_t out, int64_t stride)
      : conv1(nn::Conv2dOptions(in, out, 3).stride(stride).padding(1).bias(false)),
        conv2(nn::Conv2dOptions(out, out, 3).padding(1).bias(false)),
        bn1(out),
        bn2(out) {
    register_module("conv1", conv1);
    register_module("bn1", bn1);
    register_module("conv2", conv2);
    register_module("bn2", bn2);
    if (in == out) return;
    downsample = register_module(
        "downsample",
        nn::Sequential(nn::Conv2d(nn::Conv2dOptions(in, out, 1).stride(stride).bias(false)), nn::BatchNorm2d(out)));
  }
  torch::Tensor forward(const torch::Tensor& x) {
    const torch::Tensor y = bn2(conv2(torch::relu(bn1(conv1(x)))));
    return torch::relu(y + (downsample ? downsample->forward(x) : x));
  }
  nn::Conv2d conv1, conv2;
  nn::BatchNorm2d bn1, bn2;
  nn::Sequential downsample{nullptr};
};

// `width`: channels of the first stage, 64 in the original.
struct ResNet18 : nn::Module {
  explicit ResNet18(int64_t width)
      : conv1(nn::Conv2dOptions(3, width, 7).stride(2).padding(3).bias(false)), bn1(width), fc(8 * width, 1000) {
    register_module("conv1", conv1);
    register_module("bn1", bn1);
    int64_t in = width;
    for (int stage = 0; stage < 4; ++stage) {
      const int64_t out = width << stage;
      stages.push_back(nn::Sequential(BasicBlock(in, out, stage == 0 ? 1 : 2), BasicBlock(out, out, 1)));
      register_module(absl::StrCat("layer", stage + 1), stages.back());
      in = out;
    }
    register_module("fc", fc);
  }
  torch::Tensor Loss(const Tensors& fields, Tensors& values) {
    torch::Tensor x = torch::max_pool2d(torch::relu(bn1(conv1(fields.at("image")))), 3, 2, 1);
    values["maxpool"] = x;
    for (int stage = 0; stage < 4; ++stage) {
      x = stages[stage]->forward(x);
      values[absl::StrCat("layer", stage + 1, ".1.relu2")] = x;
    }
    values["flatten"] = x = torch::adaptive_avg_pool2d(x, {1, 1}).flatten(1);
    values["fc"] = x = fc(x);
    return F::cross_entropy(x, fields.at("label"));
  }
  nn::Conv2d conv1;
  nn::BatchNorm2d bn1;
  std::vector<nn::Sequential> stages;
  nn::Linear fc;
};

// The job whole: every tensor in four.
TEST(ResNet18Network, EveryTensorIsCutInFour) {
  NetworkCase network;
  network.job = "examples/resnet18/resnet18.textproto";
  const auto plan = PlanOfNetwork(network, 4);
  ASSERT_TRUE(plan.ok()) << plan.status();
  for (const ValuePlan& value : plan->program(0).value()) {
    if (value.name() == "label") continue;
    EXPECT_EQ(value.layout().rank_size(), 4) << value.name();
    for (const std::string& placement : value.layout().placement()) {
      EXPECT_EQ(placement.substr(0, 1), "S") << value.name();
    }
  }
  for (const ParameterPlan& parameter : plan->parameter()) {
    if (parameter.buffer()) continue;
    EXPECT_EQ(parameter.home().rank_size(), 4) << parameter.name();
    for (const std::string& placement : parameter.home().placement()) {
      EXPECT_EQ(placement.substr(0, 1), "S") << parameter.name();
    }
  }
}

// A quarter of the channels, on images of 64 x 64.
TEST(ResNet18Network, EqualsSerial) {
  auto module = std::make_shared<ResNet18>(16);
  NetworkCase network;
  network.job = "examples/resnet18/resnet18.textproto";
  network.edit = [](JobSpec& job) {
    SetFieldShape(job, "image", {3, 64, 64});
    job.mutable_train()->set_batch(2);
    for (Layer& layer : *job.mutable_layer()) {
      if (layer.has_conv()) layer.mutable_conv()->set_out_channels(layer.conv().out_channels() / 4);
    }
  };
  network.classes = {{"label", 1000}};
  network.module = module;
  network.loss = [module](const Tensors& fields, const Tensors&, Tensors& values) {
    return module->Loss(fields, values);
  };
  network.parts = {{3, {{"grid", {1, 1, 1, 3}}}},
                   {6, {{"grid", {1, 1, 3, 2}}, {"channels", {1, 6, 1, 1}}, {"out", {6, 1}}, {"features", {1, 6}}}}};
  const NetworkComparison comparison(network, TestSeed(3));
  for (const int ranks : kNumbersOfRanks) EXPECT_EQ(comparison.DifferencesOn(ranks), "");
}

}  // namespace
}  // namespace adjoin
