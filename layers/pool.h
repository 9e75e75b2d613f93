// Max pooling in one to three spatial dims, as torch.nn.MaxPool{1,2,3}d: a builder for the registry.
//
//   registry.Register("pool", BuildPool);
//
// The role "x" fetches exactly what this rank's outputs read; outside the input lies minus infinity. The local kernel
// runs without padding, also with ceil_mode.
// Errors: kInvalidArgument for another mode than "max", and for adaptive sizes.
#ifndef ADJOIN_LAYERS_POOL_H_
#define ADJOIN_LAYERS_POOL_H_

#include <memory>

#include "absl/status/statusor.h"
#include "layers/layer.h"

namespace adjoin {

absl::StatusOr<std::unique_ptr<LayerModule>> BuildPool(LayerContext context);

}  // namespace adjoin

#endif  // ADJOIN_LAYERS_POOL_H_
