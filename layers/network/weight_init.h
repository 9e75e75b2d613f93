// The initial values of a block of a parameter. They belong to global indices: however a parameter is cut, its elements
// start as the same numbers.
//
//   at::Tensor block = InitialBlock(init, fan_in, home.shape(), home.shape(), home.BoxOf(rank), {seed, kPurposeInit,
//   i});
//
// Pure; any thread.
#ifndef ADJOIN_LAYERS_NETWORK_WEIGHT_INIT_H_
#define ADJOIN_LAYERS_NETWORK_WEIGHT_INIT_H_

#include <cstdint>
#include <optional>
#include <vector>

#include <ATen/core/Tensor.h>

#include "primitives/geometry/box.h"
#include "primitives/random/philox.h"
#include "proto/job.pb.h"

namespace adjoin {

// Float64, of the box's shape, of a tensor of `shape` that is stored, and drawn, as `stored_shape`. `init` has passed
// CheckInit (layers/rules/init_rule.h); without one, PyTorch's default for convolutions and linear layers: uniform in
// [-b, b) with b = 1 / sqrt(fan_in), for weight and bias alike.
at::Tensor InitialBlock(const std::optional<Init>& init, int64_t fan_in, const std::vector<int64_t>& stored_shape,
                        const std::vector<int64_t>& shape, const Box& box, const RandomStream& stream);

}  // namespace adjoin

#endif  // ADJOIN_LAYERS_NETWORK_WEIGHT_INIT_H_
