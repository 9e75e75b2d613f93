// An element-wise function of any local tensor: a builder for the registry.
//
//   registry.Register("activation", BuildActivation);
//
// Errors: kInvalidArgument for a function that is not known (lists those that are).
#ifndef ADJOIN_LAYERS_ACTIVATION_H_
#define ADJOIN_LAYERS_ACTIVATION_H_

#include <memory>

#include "absl/status/statusor.h"
#include "layers/layer.h"

namespace adjoin {

absl::StatusOr<std::unique_ptr<LayerModule>> BuildActivation(LayerContext context);

}  // namespace adjoin

#endif  // ADJOIN_LAYERS_ACTIVATION_H_
