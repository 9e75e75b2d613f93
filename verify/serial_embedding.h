// Vectors by index, by position and for every sample, as PyTorch's users write them: functions for SerialFunctions.
#ifndef ADJOIN_VERIFY_SERIAL_EMBEDDING_H_
#define ADJOIN_VERIFY_SERIAL_EMBEDDING_H_

#include <torch/torch.h>

#include "verify/serial_functions.h"

namespace adjoin {

torch::Tensor SerialEmbedding(SerialCall& call);
torch::Tensor SerialPosition(SerialCall& call);
torch::Tensor SerialTokens(SerialCall& call);

}  // namespace adjoin

#endif  // ADJOIN_VERIFY_SERIAL_EMBEDDING_H_
