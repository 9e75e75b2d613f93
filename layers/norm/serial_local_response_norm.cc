// Local response normalisation of whole tensors, by LibTorch.
#include <torch/nn/functional.h>

#include "layers/serial_functions.h"

namespace adjoin {

at::Tensor SerialLocalResponseNorm(SerialCall& call) {
  const LocalResponseNorm& spec = call.spec().local_response_norm();
  // Contiguous: LibTorch views its input in another shape, also after a permutation, where that is not possible.
  return torch::nn::functional::local_response_norm(call.input().contiguous(),
                                                    torch::nn::functional::LocalResponseNormFuncOptions(spec.size())
                                                        .alpha(spec.has_alpha() ? spec.alpha() : 1e-4)
                                                        .beta(spec.has_beta() ? spec.beta() : 0.75)
                                                        .k(spec.has_k() ? spec.k() : 1));
}

}  // namespace adjoin
