#include "bench/layer_cases.h"

#include <cmath>

#include <ATen/TensorOperators.h>
#include <ATen/ops/batch_norm.h>
#include <ATen/ops/convolution.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/softmax.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace adjoin {
namespace {

SerialLayer Conv(std::vector<int64_t> x_shape, int64_t kernel) {
  const int64_t channels = x_shape[1], spatial = static_cast<int64_t>(x_shape.size()) - 2;
  std::vector<int64_t> weight = {channels, channels};
  weight.insert(weight.end(), spatial, kernel);
  const std::vector<int64_t> padding(spatial, kernel / 2);
  return {std::move(x_shape),
          {{"weight", weight}, {"bias", {channels}}},
          [padding](const at::Tensor& x, const std::map<std::string, at::Tensor>& parameters) {
            const std::vector<int64_t> ones(padding.size(), 1), zeros(padding.size(), 0);
            return at::convolution(x, parameters.at("weight"), parameters.at("bias"), ones, padding, ones,
                                   /*transposed=*/false, zeros, /*groups=*/1);
          }};
}

// Cut in its first spatial dim.
LayerCase ConvCase(const std::string& name, std::vector<int64_t> x_shape, int64_t kernel) {
  LayerCase result;
  result.name = name;
  result.what = absl::StrCat("conv, ", absl::StrJoin(x_shape, "x"), ", kernel ", kernel);
  result.layer =
      absl::StrCat("conv { out_channels: ", x_shape[1], " window { kernel: ", kernel, " pad_lo: ", kernel / 2, " } }");
  std::vector<int64_t> partition(x_shape.size(), 1);
  partition[2] = 2;
  result.layouts = absl::StrCat("layout { name: 'x' partition: [", absl::StrJoin(partition, ", "), "] }");
  result.uses = "x: 'x'";
  result.whole = Conv(x_shape, kernel);
  x_shape[2] /= 2;
  result.half = Conv(x_shape, kernel);
  return result;
}

SerialLayer Linear(int64_t rows, int64_t in, int64_t out) {
  return {{rows, in},
          {{"weight", {out, in}}, {"bias", {out}}},
          [](const at::Tensor& x, const std::map<std::string, at::Tensor>& parameters) {
            return at::linear(x, parameters.at("weight"), parameters.at("bias"));
          }};
}

// Column-parallel: each rank has all rows and half of the weight's outputs.
LayerCase LinearCase() {
  LayerCase result;
  result.name = "linear";
  result.what = "linear, 512 rows, 4096 to 4096, the weight cut by outputs";
  result.layer = "linear { out_features: 4096 }";
  result.layouts =
      "layout { name: 'x' mesh { size: 2 } sbp: 'B' } layout { name: 'w' partition: [2, 1] }"
      " layout { name: 'y' partition: [1, 2] }";
  result.uses = "x: 'x' w: 'w' y: 'y'";
  result.whole = Linear(512, 4096, 4096);
  result.half = Linear(512, 4096, 2048);
  return result;
}

SerialLayer BatchNorm(std::vector<int64_t> x_shape) {
  const int64_t channels = x_shape[1];
  return {std::move(x_shape),
          {{"weight", {channels}}, {"bias", {channels}}},
          [](const at::Tensor& x, const std::map<std::string, at::Tensor>& parameters) {
            return at::batch_norm(x, parameters.at("weight"), parameters.at("bias"), /*running_mean=*/{},
                                  /*running_var=*/{}, /*training=*/true, 0.1, 1e-5, /*cudnn_enabled=*/false);
          }};
}

LayerCase BatchNormCase() {
  LayerCase result;
  result.name = "batch_norm";
  result.what = "batch norm, 16x32x256x256, cut in the batch";
  result.layer = "norm { kind: 'batch' }";
  result.layouts = "layout { name: 'x' partition: [2, 1, 1, 1] }";
  result.uses = "x: 'x'";
  result.whole = BatchNorm({16, 32, 256, 256});
  result.half = BatchNorm({8, 32, 256, 256});
  return result;
}

// torch.nn.MultiheadAttention as plain LibTorch computes it: all scores at once. `heads` of `width` features each.
SerialLayer Attention(int64_t length, int64_t features, int64_t heads, int64_t width) {
  const int64_t inner = heads * width;
  return {{1, length, features},
          {{"in_proj_weight", {3 * inner, features}},
           {"in_proj_bias", {3 * inner}},
           {"out_proj.weight", {features, inner}},
           {"out_proj.bias", {features}}},
          [heads, width, inner](const at::Tensor& x, const std::map<std::string, at::Tensor>& parameters) {
            const at::Tensor all = at::linear(x, parameters.at("in_proj_weight"), parameters.at("in_proj_bias"))
                                       .reshape({x.size(0), x.size(1), 3, heads, width})
                                       .permute({2, 0, 3, 1, 4});
            const at::Tensor scores =
                at::matmul(all[0] / std::sqrt(static_cast<double>(width)), all[1].transpose(2, 3));
            const at::Tensor y = at::matmul(at::softmax(scores, -1), all[2]);
            return at::linear(y.transpose(1, 2).reshape({x.size(0), x.size(1), inner}),
                              parameters.at("out_proj.weight"), parameters.at("out_proj.bias"));
          }};
}

// The sequence cut in two; the halves have half of the heads each.
LayerCase AttentionCase(int64_t length) {
  constexpr int64_t kFeatures = 256, kHeads = 4, kWidth = kFeatures / kHeads;
  LayerCase result;
  result.name = absl::StrCat("attention_", length);
  result.what = absl::StrCat("attention, 1x", length, "x", kFeatures, ", ", kHeads, " heads, cut in its sequence");
  result.layer = absl::StrCat("attention { heads: ", kHeads, " }");
  result.layouts = "layout { name: 'x' partition: [1, 2, 1] }";
  result.uses = "x: 'x'";
  result.whole = Attention(length, kFeatures, kHeads, kWidth);
  result.half = Attention(length, kFeatures, kHeads / 2, kWidth);
  return result;
}

}  // namespace

std::vector<LayerCase> LayerCases() {
  return {ConvCase("conv2d_8x512_k3", {1, 8, 512, 512}, 3),
          ConvCase("conv2d_8x512_k5", {1, 8, 512, 512}, 5),
          ConvCase("conv2d_16x2048_k3", {1, 16, 2048, 2048}, 3),
          ConvCase("conv2d_16x2048_k5", {1, 16, 2048, 2048}, 5),
          ConvCase("conv3d_8x128_k3", {1, 8, 128, 128, 128}, 3),
          LinearCase(),
          BatchNormCase(),
          AttentionCase(16),
          AttentionCase(32),
          AttentionCase(64),
          AttentionCase(128),
          AttentionCase(256),
          AttentionCase(512),
          AttentionCase(1024),
          AttentionCase(2048),
          AttentionCase(4096),
          AttentionCase(8192)};
}

}  // namespace adjoin
