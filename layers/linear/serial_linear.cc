// torch.nn.Linear on whole tensors.
#include <torch/nn/functional.h>
#include <torch/types.h>

#include <algorithm>
#include <cmath>

#include "layers/serial_functions.h"

namespace adjoin {
namespace {

namespace F = torch::nn::functional;
using torch::Tensor;

}  // namespace

Tensor SerialLinear(SerialCall& call) {
  const Linear& spec = call.spec().linear();
  const int64_t in = call.input().size(-1), out = spec.out_features();
  const double spread = 1 / std::sqrt(static_cast<double>(std::max<int64_t>(1, in)));
  const Tensor weight =
      spec.transposed() ? call.Parameter("weight", {in, out}, spread).t() : call.Parameter("weight", {out, in}, spread);
  const bool has_bias = !spec.has_bias() || spec.bias();
  return F::linear(call.input(), weight, has_bias ? call.Parameter("bias", {out}, spread) : Tensor());
}

}  // namespace adjoin
