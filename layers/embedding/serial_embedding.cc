// Vectors by index, by position and for every sample, on whole tensors, as PyTorch's users write them.
#include <torch/nn/functional.h>
#include <torch/types.h>

#include <cmath>
#include <vector>

#include "layers/serial_functions.h"

namespace adjoin {
namespace {

namespace F = torch::nn::functional;
using torch::Tensor;

}  // namespace

Tensor SerialEmbedding(SerialCall& call) {
  const Embedding& spec = call.spec().embedding();
  auto options = F::EmbeddingFuncOptions();
  if (spec.has_padding_index()) options.padding_idx(spec.padding_index());
  return F::embedding(call.input(), call.Parameter("weight", {spec.num_embeddings(), spec.dim()}, 1), options);
}

Tensor SerialPosition(SerialCall& call) {
  const Tensor& x = call.input();
  if (call.spec().position().kind() == "learned") {
    return x + call.Parameter("weight", x.sizes().slice(1).vec(), 0.5);
  }
  // As in PyTorch's tutorial on transformers.
  const int64_t length = x.size(1), features = x.size(2), pairs = (features + 1) / 2;
  const Tensor position = torch::arange(length, torch::kFloat64).unsqueeze(1);
  const Tensor frequency = torch::exp(torch::arange(pairs, torch::kFloat64) * 2 * (-std::log(10000.0) / features));
  const Tensor angle = position * frequency;
  return x + torch::stack({torch::sin(angle), torch::cos(angle)}, 2).flatten(1).narrow(1, 0, features);
}

Tensor SerialTokens(SerialCall& call) {
  const int64_t count = call.spec().tokens().count(), features = call.input().size(-1);
  return call.Parameter("weight", {count, features}, 0.5).unsqueeze(0).repeat({call.input().size(0), 1, 1});
}

}  // namespace adjoin
