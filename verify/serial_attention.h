// Layers that attend, as PyTorch defines them: functions for SerialFunctions.
#ifndef ADJOIN_VERIFY_SERIAL_ATTENTION_H_
#define ADJOIN_VERIFY_SERIAL_ATTENTION_H_

#include <torch/torch.h>

#include "verify/serial_functions.h"

namespace adjoin {

torch::Tensor SerialAttention(SerialCall& call);

}  // namespace adjoin

#endif  // ADJOIN_VERIFY_SERIAL_ATTENTION_H_
