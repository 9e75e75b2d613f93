// The layers that are not about neighbouring pixels, as PyTorch defines them: functions for SerialFunctions.
#ifndef ADJOIN_VERIFY_SERIAL_LOCAL_H_
#define ADJOIN_VERIFY_SERIAL_LOCAL_H_

#include <torch/torch.h>

#include "verify/serial_functions.h"

namespace adjoin {

torch::Tensor SerialActivation(SerialCall& call);
torch::Tensor SerialAdd(SerialCall& call);
torch::Tensor SerialConcat(SerialCall& call);
torch::Tensor SerialLinear(SerialCall& call);
torch::Tensor SerialMultiply(SerialCall& call);
// Returns a view, so that the layer's output has a gradient of its own.
torch::Tensor SerialRepartition(SerialCall& call);
torch::Tensor SerialSoftmax(SerialCall& call);

}  // namespace adjoin

#endif  // ADJOIN_VERIFY_SERIAL_LOCAL_H_
