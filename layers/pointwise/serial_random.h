// The random factors of dropout, each computed by itself from its element's index in the batch: for the serial
// functions of layers that drop something.
#ifndef ADJOIN_LAYERS_POINTWISE_SERIAL_RANDOM_H_
#define ADJOIN_LAYERS_POINTWISE_SERIAL_RANDOM_H_

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

#include "layers/serial_functions.h"

namespace adjoin {

// What dropout at this place multiplies with, float64: 0, or 1 / (1 - p).
at::Tensor SerialDropoutFactors(const SerialPlace& place, const std::vector<int64_t>& shape, double p);

}  // namespace adjoin

#endif  // ADJOIN_LAYERS_POINTWISE_SERIAL_RANDOM_H_
