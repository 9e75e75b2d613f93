// Attention within shifted windows, as torchvision's shifted_window_attention: a function for SerialFunctions.
#ifndef ADJOIN_VERIFY_SERIAL_WINDOW_ATTENTION_H_
#define ADJOIN_VERIFY_SERIAL_WINDOW_ATTENTION_H_

#include <torch/torch.h>

#include "verify/serial_functions.h"

namespace adjoin {

torch::Tensor SerialWindowAttention(SerialCall& call);

}  // namespace adjoin

#endif  // ADJOIN_VERIFY_SERIAL_WINDOW_ATTENTION_H_
