// examples/wavenet against plain torch::nn::functional.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include <torch/nn/functional.h>
#include <torch/types.h>

#include "absl/strings/str_cat.h"
#include "primitives/random/philox.h"
#include "proto/plan.pb.h"
#include "tests/networks/network_comparison.h"

namespace adjoin {
namespace {

namespace F = torch::nn::functional;
using torch::Tensor;

constexpr char kJob[] = "examples/wavenet/wavenet.textproto";
constexpr int kBlocks = 10;
constexpr double kDropped = 0.05;

// Over time, from the past only: the output at t reads nothing after t.
Tensor Causal(const Tensor& x, const Tensors& parameters, const std::string& name, int64_t dilation) {
  const Tensor weight = parameters.at(name + ".weight");
  const Tensor padded = F::pad(x, F::PadFuncOptions({dilation * (weight.size(2) - 1), 0}));
  return F::conv1d(padded, weight, F::Conv1dFuncOptions().bias(parameters.at(name + ".bias")).dilation(dilation));
}

// The factors of each sample's channels in the first step of a job with seed 1.
Tensor KeptChannels(int64_t batch, int64_t channels, int layer) {
  Tensor factors = torch::zeros({batch, channels, 1}, torch::kFloat64);
  for (int64_t i = 0; i < factors.numel(); ++i) {
    const bool kept = UniformAt(1, kPurposeDropout, static_cast<uint64_t>(layer), static_cast<uint64_t>(i)) >= kDropped;
    factors.data_ptr<double>()[i] = kept ? 1 / (1 - kDropped) : 0;
  }
  return factors;
}

Tensor Loss(const Tensors& fields, const Tensors& p, int dropout_layer, Tensors& values) {
  Tensor x = Causal(fields.at("wave"), p, "input", 1), skips;
  for (int i = 0; i < kBlocks; ++i) {
    const std::string block = absl::StrCat("block", i);
    const int64_t dilation = int64_t{1} << i;
    const Tensor gated = torch::tanh(Causal(x, p, block + ".filter", dilation)) *
                         torch::sigmoid(Causal(x, p, block + ".gate", dilation));
    values[block + ".gated"] = gated;
    const Tensor skip = Causal(gated, p, block + ".skip", 1);
    skips = skips.defined() ? skips + skip : skip;
    if (i + 1 < kBlocks) values[block] = x = Causal(gated, p, block + ".residual", 1) + x;
  }
  values["skips"] = skips;
  const Tensor hidden = torch::relu(Causal(torch::relu(skips), p, "hidden", 1));
  const Tensor dropped = hidden * KeptChannels(hidden.size(0), hidden.size(1), dropout_layer);
  values["drop"] = dropped;
  values["classes"] = Causal(dropped, p, "classes", 1);
  return F::cross_entropy(values["classes"], fields.at("next"));
}

// As many channels as make the gradients differ.
NetworkCase Small() {
  NetworkCase network;
  network.job = kJob;
  network.edit = [](JobSpec& job) {
    job.mutable_train()->set_batch(2);
    for (Layer& layer : *job.mutable_layer()) {
      if (layer.has_conv()) layer.mutable_conv()->set_out_channels(layer.conv().out_channels() / 4);
    }
  };
  network.classes = {{"next", 16}};
  return network;
}

TEST(WaveNet, TheLongestHaloComesFromThreeRanksAway) {
  const auto plan = PlanOfNetwork(Small(), 4);
  ASSERT_TRUE(plan.ok()) << plan.status();
  for (const LayerPlan& layer : plan->program(0).layer()) {
    if (layer.name() != "block9.filter") continue;
    ASSERT_EQ(layer.halo_size(), 1);
    // Parts of 400; the first has nothing before it, the second 400, the third 800.
    EXPECT_EQ(layer.halo(0).left(3), 1024);
    EXPECT_EQ(layer.halo(0).right(3), 0);
    return;
  }
  FAIL() << "no block9.filter";
}

TEST(WaveNet, EqualsSerial) {
  NetworkCase network = Small();
  const auto plan = PlanOfNetwork(network, 1);
  ASSERT_TRUE(plan.ok()) << plan.status();
  int dropout = 0;
  while (!plan->program(0).layer(dropout).spec().has_dropout()) ++dropout;
  network.loss = [dropout](const Tensors& fields, const Tensors& parameters, Tensors& values) {
    return Loss(fields, parameters, dropout, values);
  };
  const NetworkComparison comparison(network, TestSeed(5));
  for (const int ranks : kNumbersOfRanks) EXPECT_EQ(comparison.DifferencesOn(ranks), "");
}

}  // namespace
}  // namespace adjoin
