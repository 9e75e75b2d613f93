// examples/vit against a function of torch's: patches by a strided convolution, a class token, learned positions,
// blocks that normalise first, the class token's features to a linear head.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include <torch/nn/functional.h>
#include <torch/types.h>

#include "absl/strings/str_cat.h"
#include "tests/networks/network_comparison.h"

namespace adjoin {
namespace {

namespace F = torch::nn::functional;

constexpr int64_t kFeatures = 32, kHeads = 4;

torch::Tensor Linear(const torch::Tensor& x, const Tensors& p, const std::string& name) {
  return torch::linear(x, p.at(name + ".weight"), p.at(name + ".bias"));
}

torch::Tensor LayerNorm(const torch::Tensor& x, const Tensors& p, const std::string& name) {
  return torch::layer_norm(x, {kFeatures}, p.at(name + ".weight"), p.at(name + ".bias"), 1e-5);
}

// torch.nn.MultiheadAttention of x on itself.
torch::Tensor Attention(const torch::Tensor& x, const Tensors& p, const std::string& name) {
  const int64_t batch = x.size(0), length = x.size(1), each = kFeatures / kHeads;
  const auto parts = torch::linear(x, p.at(name + ".in_proj_weight"), p.at(name + ".in_proj_bias")).chunk(3, -1);
  const auto of_heads = [&](const torch::Tensor& t) { return t.view({batch, length, kHeads, each}).transpose(1, 2); };
  const torch::Tensor scores = torch::matmul(of_heads(parts[0]), of_heads(parts[1]).transpose(2, 3)) / std::sqrt(each);
  const torch::Tensor mixed = torch::matmul(torch::softmax(scores, -1), of_heads(parts[2]));
  return Linear(mixed.transpose(1, 2).reshape({batch, length, kFeatures}), p, name + ".out_proj");
}

torch::Tensor Block(torch::Tensor x, const Tensors& p, const std::string& name) {
  x = x + Attention(LayerNorm(x, p, name + ".norm1"), p, name + ".self_attn");
  const torch::Tensor hidden = torch::gelu(Linear(LayerNorm(x, p, name + ".norm2"), p, name + ".linear1"));
  return x + Linear(hidden, p, name + ".linear2");
}

torch::Tensor Vit(const Tensors& fields, const Tensors& p, Tensors& values) {
  const torch::Tensor image = fields.at("image");
  torch::Tensor x = torch::conv2d(image, p.at("patch.weight"), p.at("patch.bias"), /*stride=*/4);
  x = values["sequence"] = x.flatten(2).transpose(1, 2);
  x = torch::cat({p.at("class.weight").expand({x.size(0), 1, kFeatures}), x}, 1);
  x = values["position"] = x + p.at("position.weight");
  for (int block = 1; block <= 3; ++block) {
    const std::string name = absl::StrCat("block", block);
    x = values[name] = Block(x, p, name);
  }
  x = LayerNorm(x, p, "norm").select(1, 0);
  x = values["head"] = Linear(x, p, "head");
  return F::cross_entropy(x, fields.at("label"));
}

TEST(VitNetwork, EqualsSerial) {
  NetworkCase network;
  network.job = "examples/vit/vit.textproto";
  network.edit = [](JobSpec& job) {
    job.mutable_train()->set_batch(5);
    for (Dataset& dataset : *job.mutable_dataset()) dataset.clear_augment();
  };
  network.classes = {{"label", 10}};
  network.loss = Vit;
  network.parts = {
      {3, {{"grid", {1, 1, 1, 3}}, {"rows", {3, 1}}, {"tokens", {3, 1}}, {"heads", {3, 1}}, {"samples", {3, 1, 1}}}},
      {6, {{"grid", {1, 1, 2, 3}}, {"rows", {3, 2}}, {"tokens", {3, 2}}, {"heads", {3, 2}}, {"samples", {6, 1, 1}}}}};
  const NetworkComparison comparison(network, TestSeed(1));
  for (const int ranks : kNumbersOfRanks) EXPECT_EQ(comparison.DifferencesOn(ranks), "");
}

}  // namespace
}  // namespace adjoin
