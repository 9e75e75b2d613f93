// torch.nn.MultiheadAttention on whole tensors.

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/softmax.h>

#include "layers/pointwise/serial_random.h"
#include "layers/serial_functions.h"

namespace adjoin {
namespace {

using at::Tensor;

// [batch, length, features] as [batch, heads, length, features of a head].
Tensor Heads(const Tensor& x, int64_t heads) {
  return x.reshape({x.size(0), x.size(1), heads, x.size(2) / heads}).transpose(1, 2);
}

}  // namespace

Tensor SerialAttention(SerialCall& call) {
  const Attention& spec = call.spec().attention();
  const Tensor& x = call.input();
  const Tensor& keys = call.inputs()[call.inputs().size() > 1 ? 1 : 0];
  const Tensor& values = call.inputs().back();
  const int64_t features = x.size(2), from = keys.size(2), values_from = values.size(2), heads = spec.heads();
  TORCH_CHECK(heads > 0 && features % heads == 0, "attention.heads must divide the features");
  const double spread = 1 / std::sqrt(static_cast<double>(features));
  std::vector<Tensor> weights;
  if (from == features && values_from == features) {
    weights = call.Parameter("in_proj_weight", {3 * features, features}, spread).chunk(3);
  } else {
    weights.push_back(call.Parameter("q_proj_weight", {features, features}, spread));
    weights.push_back(call.Parameter("k_proj_weight", {features, from}, spread));
    weights.push_back(call.Parameter("v_proj_weight", {features, values_from}, spread));
  }
  const bool has_bias = !spec.has_bias() || spec.bias();
  std::vector<Tensor> biases(3);
  if (has_bias) biases = call.Parameter("in_proj_bias", {3 * features}, spread).chunk(3);
  const Tensor q = Heads(at::linear(x, weights[0], biases[0]), heads);
  const Tensor k = Heads(at::linear(keys, weights[1], biases[1]), heads);
  const Tensor v = Heads(at::linear(values, weights[2], biases[2]), heads);
  Tensor scores = at::matmul(q, k.transpose(2, 3)) / std::sqrt(static_cast<double>(features / heads));
  if (spec.causal()) {
    const Tensor later = at::ones({x.size(1), keys.size(1)}, at::kBool).triu(1);
    scores = scores.masked_fill(later, -std::numeric_limits<double>::infinity());
  }
  Tensor shares = at::softmax(scores, -1);
  if (spec.dropout() > 0) {
    shares = shares * SerialDropoutFactors(call.place(), {x.size(0), heads, x.size(1), keys.size(1)}, spec.dropout());
  }
  const Tensor y = at::matmul(shares, v).transpose(1, 2).reshape(x.sizes());
  const Tensor out = call.Parameter("out_proj.weight", {features, features}, spread);
  return at::linear(y, out, has_bias ? call.Parameter("out_proj.bias", {features}, spread) : Tensor());
}

}  // namespace adjoin
