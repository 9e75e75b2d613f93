// The layers that only give elements other places, as PyTorch defines them: functions for SerialFunctions. Each returns a
// tensor of its own, so that the layer's output has a gradient of its own.
#ifndef ADJOIN_VERIFY_SERIAL_SHAPE_H_
#define ADJOIN_VERIFY_SERIAL_SHAPE_H_

#include <torch/torch.h>

#include "verify/serial_functions.h"

namespace adjoin {

torch::Tensor SerialExpand(SerialCall& call);
torch::Tensor SerialFlatten(SerialCall& call);
torch::Tensor SerialFlip(SerialCall& call);
torch::Tensor SerialIndexSelect(SerialCall& call);
torch::Tensor SerialPermute(SerialCall& call);
torch::Tensor SerialPixelShuffle(SerialCall& call);
torch::Tensor SerialPixelUnshuffle(SerialCall& call);
torch::Tensor SerialRepeat(SerialCall& call);
torch::Tensor SerialReshape(SerialCall& call);
torch::Tensor SerialRoll(SerialCall& call);

}  // namespace adjoin

#endif  // ADJOIN_VERIFY_SERIAL_SHAPE_H_
