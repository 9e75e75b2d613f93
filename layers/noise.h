// Normal noise, added or multiplied: a builder for the registry.
//
//   registry.Register("noise", BuildNoise);
//
// In programs that train y = x + std z, or x (1 + std z), z a standard normal number for each element (placed_random.h).
// Elsewhere the layer returns its input. A second run (recompute) draws the same. It can be differentiated any number of
// times. Local shapes: x and y alike.
// Errors: kInvalidArgument where the plan's layout is none.
#ifndef ADJOIN_LAYERS_NOISE_H_
#define ADJOIN_LAYERS_NOISE_H_

#include <memory>

#include "absl/status/statusor.h"
#include "layers/layer.h"

namespace adjoin {

absl::StatusOr<std::unique_ptr<LayerModule>> BuildNoise(LayerContext context);

}  // namespace adjoin

#endif  // ADJOIN_LAYERS_NOISE_H_
