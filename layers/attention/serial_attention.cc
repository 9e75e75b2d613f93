// torch.nn.MultiheadAttention on whole tensors; without projections scaled_dot_product_attention of PyTorch 2.5, which
// LibTorch 1 does not have.

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

// The softmax of PyTorch 2.5's _safe_softmax: a row of nothing but minus infinity has no weights.
Tensor Shares(const Tensor& scores) {
  const Tensor masked = (scores.detach() == -std::numeric_limits<double>::infinity()).all(-1, /*keepdim=*/true);
  return at::softmax(scores.masked_fill(masked, 0), -1).masked_fill(masked, 0);
}

// Attention of heads side by side; the result has the values' features. `bias` is added to the scores; undefined: none.
Tensor Attended(SerialCall& call, const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& bias) {
  const Attention& spec = call.spec().attention();
  const double scale = spec.has_scale() ? spec.scale() : 1 / std::sqrt(static_cast<double>(q.size(3)));
  Tensor scores = at::matmul(q, k.transpose(2, 3)) * scale;
  if (bias.defined()) scores = scores + bias;
  if (spec.causal()) {
    const Tensor later = at::ones({q.size(2), k.size(2)}, at::kBool).triu(1);
    scores = scores.masked_fill(later, -std::numeric_limits<double>::infinity());
  }
  Tensor shares = Shares(scores);
  if (spec.dropout() > 0) shares = shares * SerialDropoutFactors(call.place(), shares.sizes().vec(), spec.dropout());
  return at::matmul(shares, v).transpose(1, 2).reshape({v.size(0), q.size(2), v.size(1) * v.size(3)});
}

}  // namespace

Tensor SerialAttention(SerialCall& call) {
  const Attention& spec = call.spec().attention();
  std::vector<Tensor> inputs = call.inputs();
  Tensor score_bias;
  if (spec.score_bias()) {
    score_bias = inputs.back();
    inputs.pop_back();
  }
  TORCH_CHECK(!inputs.empty(), "attention reads nothing but a bias of the scores");
  const Tensor& x = inputs[0];
  const Tensor& keys = inputs[inputs.size() > 1 ? 1 : 0];
  const Tensor& values = inputs.back();
  const int64_t features = x.size(2), from = keys.size(2), values_from = values.size(2), heads = spec.heads();
  TORCH_CHECK(heads > 0 && features % heads == 0, "attention.heads must divide the features");
  if (spec.has_projections() && !spec.projections()) {
    return Attended(call, Heads(x, heads), Heads(keys, heads), Heads(values, heads), score_bias);
  }
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
  const Tensor y = Attended(call, q, k, v, score_bias);
  const Tensor out = call.Parameter("out_proj.weight", {features, features}, spread);
  return at::linear(y, out, has_bias ? call.Parameter("out_proj.bias", {features}, spread) : Tensor());
}

}  // namespace adjoin
