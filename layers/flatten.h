// torch.flatten of the local tensor: a builder for the registry.
//
//   registry.Register("flatten", BuildFlatten);
//
// The planner admits it only where the local parts of the merged dims are parts of the merged dim.
#ifndef ADJOIN_LAYERS_FLATTEN_H_
#define ADJOIN_LAYERS_FLATTEN_H_

#include <memory>

#include "absl/status/statusor.h"
#include "layers/layer.h"

namespace adjoin {

absl::StatusOr<std::unique_ptr<LayerModule>> BuildFlatten(LayerContext context);

}  // namespace adjoin

#endif  // ADJOIN_LAYERS_FLATTEN_H_
