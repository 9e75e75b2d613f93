// The sum of all inputs: a builder for the registry.
//
//   registry.Register("add", BuildAdd);
//
// The plan brings all of them to one layout, so their local tensors have one shape.
#ifndef ADJOIN_LAYERS_ADD_H_
#define ADJOIN_LAYERS_ADD_H_

#include <memory>

#include "absl/status/statusor.h"
#include "layers/layer.h"

namespace adjoin {

absl::StatusOr<std::unique_ptr<LayerModule>> BuildAdd(LayerContext context);

}  // namespace adjoin

#endif  // ADJOIN_LAYERS_ADD_H_
