// torch.reshape of the local tensor, and torch.flatten: a builder for the registry.
//
//   registry.Register("reshape", BuildReshape);
//   registry.Register("flatten", BuildReshape);
//
// The planner admits it only where the local part is a block of the result. Returns a view where it can.
#ifndef ADJOIN_LAYERS_RESHAPE_H_
#define ADJOIN_LAYERS_RESHAPE_H_

#include <memory>

#include "absl/status/statusor.h"
#include "layers/layer.h"

namespace adjoin {

absl::StatusOr<std::unique_ptr<LayerModule>> BuildReshape(LayerContext context);

}  // namespace adjoin

#endif  // ADJOIN_LAYERS_RESHAPE_H_
