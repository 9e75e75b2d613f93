// torch.matmul on whole tensors, as a sum of products.
#include <ATen/TensorOperators.h>
#include <torch/types.h>

#include "layers/serial_functions.h"

namespace adjoin {

torch::Tensor SerialMatmul(SerialCall& call) {
  return (call.inputs()[0].unsqueeze(-1) * call.inputs()[1].unsqueeze(-3)).sum(-2);
}

}  // namespace adjoin
