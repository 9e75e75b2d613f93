// Adds a vector for each position: a builder for the registry.
//
//   registry.Register("position", BuildPosition);
//
// "learned": the parameter "weight", of the shape of this rank's part of a sample. "sinusoidal": at position t, feature 2 i is
// sin(t / 10000^(2 i / features)), feature 2 i + 1 the cosine of the same; made once, in float64. It can be differentiated
// any number of times. Local shapes: x and y alike.
// Errors: kInvalidArgument where the plan's layout is none.
#ifndef ADJOIN_LAYERS_POSITION_H_
#define ADJOIN_LAYERS_POSITION_H_

#include <memory>

#include "absl/status/statusor.h"
#include "layers/layer.h"

namespace adjoin {

absl::StatusOr<std::unique_ptr<LayerModule>> BuildPosition(LayerContext context);

}  // namespace adjoin

#endif  // ADJOIN_LAYERS_POSITION_H_
