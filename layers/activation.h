// An element-wise function of any local tensor, as torch.nn has it: a builder for the registry.
//
//   registry.Register("activation", BuildActivation);
//
// Local shapes: x and y alike; prelu's weight [1], or one number for each of the rank's channels.
// Errors: kInvalidArgument (as ArgumentsOf of layers/plan/activation_functions.h, which has their list).
#ifndef ADJOIN_LAYERS_ACTIVATION_H_
#define ADJOIN_LAYERS_ACTIVATION_H_

#include <memory>

#include "absl/status/statusor.h"
#include "layers/layer.h"

namespace adjoin {

absl::StatusOr<std::unique_ptr<LayerModule>> BuildActivation(LayerContext context);

}  // namespace adjoin

#endif  // ADJOIN_LAYERS_ACTIVATION_H_
