// The layers over spatial dims, as PyTorch defines them: functions for SerialFunctions. What torch::nn cannot be asked
// for directly, paddings that differ at the two ends, is made of the same operation on an input that is padded before.
#ifndef ADJOIN_VERIFY_SERIAL_SPATIAL_H_
#define ADJOIN_VERIFY_SERIAL_SPATIAL_H_

#include <torch/torch.h>

#include "verify/serial_functions.h"

namespace adjoin {

torch::Tensor SerialConv(SerialCall& call);
torch::Tensor SerialCrop(SerialCall& call);
torch::Tensor SerialPad(SerialCall& call);
torch::Tensor SerialPool(SerialCall& call);
// LibTorch's gradient, unless it is not the adjoint of LibTorch's own forward pass: then that of the forward pass, a
// linear map, written out.
torch::Tensor SerialUpsample(SerialCall& call);

}  // namespace adjoin

#endif  // ADJOIN_VERIFY_SERIAL_SPATIAL_H_
