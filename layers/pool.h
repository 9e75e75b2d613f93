// Pooling in one to three spatial dims: a builder for the registry.
//
//   registry.Register("pool", BuildPool);
//
// By mode, the layer of max_pool.h or of average_pool.h.
// Errors: kInvalidArgument for another mode than "max", "avg" and "lp".
#ifndef ADJOIN_LAYERS_POOL_H_
#define ADJOIN_LAYERS_POOL_H_

#include <memory>

#include "absl/status/statusor.h"
#include "layers/layer.h"

namespace adjoin {

absl::StatusOr<std::unique_ptr<LayerModule>> BuildPool(LayerContext context);

}  // namespace adjoin

#endif  // ADJOIN_LAYERS_POOL_H_
