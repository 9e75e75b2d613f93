// Whole networks of examples/, one step on 1, 2, 3, 4 and 6 ranks against plain torch::nn modules in float64: layers'
// outputs, the input's gradient, every parameter's gradient and value after the step, running statistics, the loss.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <torch/torch.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "proto/plan.pb.h"
#include "tests/vs_serial/partitioned_run.h"
#include "tests/vs_serial/random_jobs.h"

namespace adjoin {
namespace {

namespace nn = torch::nn;
namespace F = torch::nn::functional;

constexpr double kLearningRate = 0.01;

// ---------------------------------------------------------------------------------------------------------------------
// The networks as a PyTorch user writes them. `values` gets some layers' outputs under the names of the jobs.

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
        "downsample", nn::Sequential(nn::Conv2d(nn::Conv2dOptions(in, out, 1).stride(stride).bias(false)),
                                     nn::BatchNorm2d(out)));
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
  explicit ResNet18(int64_t width = 16)
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

// ---------------------------------------------------------------------------------------------------------------------

struct SerialStep {
  StepInput input;
  Expected expected;
  double loss = 0;
};

// One step of SGD. `field`: the one that needs a gradient.
template <typename Model>
SerialStep RunSerial(Tensors fields, const std::string& field, RandomJobs& random) {
  Model model;
  model.to(torch::kFloat64);
  SerialStep step;
  {
    torch::NoGradGuard no_grad;
    for (auto& parameter : model.named_parameters()) {
      // Weights of unit gain, so that nothing vanishes; norms near 1 and 0.
      const auto shape = parameter.value().sizes().vec();
      const double fan_in = std::max<double>(1, static_cast<double>(parameter.value().numel()) / shape[0]);
      torch::Tensor value = random.Normal(shape) * (shape.size() > 1 ? 1.4 / std::sqrt(fan_in) : 0.1);
      if (shape.size() == 1 && absl::StrContains(parameter.key(), "weight")) value = value + 1;
      parameter.value().copy_(value);
      step.input.parameters[parameter.key()] = value;
    }
  }
  for (auto& [name, value] : fields) step.input.fields[name] = value.clone();
  fields[field].set_requires_grad(true);
  const torch::Tensor loss = model.Loss(fields, step.expected.values);
  loss.backward();
  step.loss = loss.template item<double>();
  torch::optim::SGD(model.parameters(), torch::optim::SGDOptions(kLearningRate)).step();
  for (auto& [name, value] : step.expected.values) value = value.detach();
  for (auto& parameter : model.named_parameters()) {
    step.expected.parameter_grads[parameter.key()] = parameter.value().grad();
    step.expected.parameters[parameter.key()] = parameter.value().detach();
  }
  for (auto& buffer : model.named_buffers()) step.expected.parameters[buffer.key()] = buffer.value();
  step.expected.field_grads[field] = fields[field].grad();
  step.input.sgd_lr = kLearningRate;
  return step;
}

std::string Read(const std::string& path) {
  std::ifstream file(path);
  EXPECT_TRUE(file.good()) << path;
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

using Edits = std::vector<std::pair<std::string, std::string>>;

// The job in float64 with `edits`, each of which must apply.
std::string Edited(std::string text, const Edits& edits) {
  for (const auto& [from, to] : edits) {
    EXPECT_GT(absl::StrReplaceAll({{from, to}}, &text), 0) << "no \"" << from << "\" in the job";
  }
  return text + "precision { compute: \"float64\" }\n";
}

// Height and width of a feature map cut for so many ranks.
std::string GridOf(int ranks) {
  switch (ranks) {
    case 1: return "1, 1";
    case 2: return "2, 1";
    case 3: return "1, 3";
    case 4: return "2, 2";
    default: return "3, 2";
  }
}

// In a step as a job runs it every rank sends what the plan's operators send, and nothing else.
void ExpectNoOtherMovement(const Plan& plan, StepInput input) {
  input.cotangents.clear();
  const auto ranks = RunStep(plan, input);
  ASSERT_TRUE(ranks.ok()) << ranks.status();
  for (size_t rank = 0; rank < ranks->size(); ++rank) {
    EXPECT_EQ((*ranks)[rank].bytes_sent, plan.program(0).bytes_per_step(static_cast<int>(rank))) << "rank " << rank;
  }
}

void ExpectSerial(const std::string& spec, const SerialStep& serial, uint64_t seed) {
  auto plan = PlanOf(spec, {{"train", 64}, {"test", 64}});
  ASSERT_TRUE(plan.ok()) << plan.status();
  ExpectNoOtherMovement(*plan, serial.input);
  MakeFieldsDifferentiable(*plan, "train");
  const auto ranks = RunStep(*plan, serial.input);
  ASSERT_TRUE(ranks.ok()) << ranks.status();
  EXPECT_EQ(Differences(*plan, "train", *ranks, serial.expected, 1e-10), "") << "ADJOIN_TEST_SEED=" << seed;
  for (const RankResult& rank : *ranks) EXPECT_NEAR(rank.loss, serial.loss, 1e-10 * std::abs(serial.loss));
}

TEST(NetworksTest, UNet2d) {
  const uint64_t seed = TestSeed(1);
  RandomJobs random(seed);
  const std::string job = Read("examples/unet/unet2d.textproto");
  const torch::Tensor label = random.Labels(2 * 20 * 28, 3).reshape({2, 20, 28});
  const SerialStep serial =
      RunSerial<UNet2d>({{"image", random.Normal({2, 1, 20, 28})}, {"label", label}}, "image", random);
  for (const int ranks : {1, 2, 3, 4, 6}) {
    SCOPED_TRACE(absl::StrCat(ranks, " ranks"));
    ExpectSerial(Edited(job, {{"ranks: 4", absl::StrCat("ranks: ", ranks)},
                              {"partition: [1, 1, 2, 2]", absl::StrCat("partition: [1, 1, ", GridOf(ranks), "]")},
                              {"[1, 64, 64]", "[1, 20, 28]"},
                              {"[64, 64]", "[20, 28]"},
                              {"batch: 8", "batch: 2"}}),
                 serial, seed);
  }
}

TEST(NetworksTest, UNet3d) {
  const uint64_t seed = TestSeed(2);
  RandomJobs random(seed);
  const std::string job = Read("examples/unet/unet3d.textproto");
  const torch::Tensor label = random.Labels(32 * 32 * 32, 3).reshape({1, 32, 32, 32});
  const SerialStep serial =
      RunSerial<UNet3d>({{"volume", random.Normal({1, 1, 32, 32, 32})}, {"label", label}}, "volume", random);
  for (const int ranks : {1, 2, 3, 4, 6}) {
    SCOPED_TRACE(absl::StrCat(ranks, " ranks"));
    ExpectSerial(Edited(job, {{"ranks: 4", absl::StrCat("ranks: ", ranks)},
                              {"partition: [1, 1, 1, 2, 2]", absl::StrCat("partition: [1, 1, 1, ", GridOf(ranks), "]")},
                              {"batch: 2", "batch: 1"}}),
                 serial, seed);
  }
}

// A quarter of the channels, on images of 64 x 64.
Edits SmallResNet(int ranks) {
  Edits edits = {{"ranks: 4", absl::StrCat("ranks: ", ranks)},
                 {"partition: [1, 1, 2, 2]", absl::StrCat("partition: [1, 1, ", GridOf(ranks), "]")},
                 {"partition: [1, 4, 1, 1]", absl::StrCat("partition: [1, ", ranks, ", 1, 1]")},
                 {"partition: [1, 4]", absl::StrCat("partition: [1, ", ranks, "]")},
                 {"partition: [4, 1]", absl::StrCat("partition: [", ranks, ", 1]")},
                 {"[3, 224, 224]", "[3, 64, 64]"},
                 {"batch: 64", "batch: 2"},
                 {"out_channels: 64 ", "out_channels: 16 "},
                 {"out_channels: 128 ", "out_channels: 32 "},
                 {"out_channels: 256 ", "out_channels: 64 "},
                 {"out_channels: 512 ", "out_channels: 128 "}};
  return edits;
}

SerialStep SerialResNet(uint64_t seed) {
  RandomJobs random(seed);
  return RunSerial<ResNet18>({{"image", random.Normal({2, 3, 64, 64})}, {"label", random.Labels(2, 1000)}}, "image",
                             random);
}

TEST(NetworksTest, ResNet18) {
  const uint64_t seed = TestSeed(3);
  const std::string job = Read("examples/resnet18/resnet18.textproto");
  const SerialStep serial = SerialResNet(seed);
  for (const int ranks : {1, 2, 3, 4, 6}) {
    SCOPED_TRACE(absl::StrCat(ranks, " ranks"));
    ExpectSerial(Edited(job, SmallResNet(ranks)), serial, seed);
  }
}

// As its comment says.
TEST(NetworksTest, EveryTensorOfResNet18IsCutInFour) {
  const auto plan = PlanOf(Edited(Read("examples/resnet18/resnet18.textproto"), {}), {{"train", 64}});
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

}  // namespace
}  // namespace adjoin
