// Layers that draw random numbers, each of them computed by itself from its element's index in the batch: functions for
// SerialFunctions.
#ifndef ADJOIN_VERIFY_SERIAL_RANDOM_H_
#define ADJOIN_VERIFY_SERIAL_RANDOM_H_

#include <torch/torch.h>

#include <cstdint>
#include <vector>

#include "verify/serial_functions.h"

namespace adjoin {

torch::Tensor SerialDropout(SerialCall& call);
torch::Tensor SerialNoise(SerialCall& call);

// What dropout at this place multiplies with, float64: 0, or 1 / (1 - p).
torch::Tensor SerialDropoutFactors(const SerialPlace& place, const std::vector<int64_t>& shape, double p);

}  // namespace adjoin

#endif  // ADJOIN_VERIFY_SERIAL_RANDOM_H_
