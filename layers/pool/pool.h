// Pooling on one rank, for layers that are one under another name.
#ifndef ADJOIN_LAYERS_POOL_POOL_H_
#define ADJOIN_LAYERS_POOL_POOL_H_

#include <memory>

#include "absl/status/statusor.h"
#include "layers/layer.h"

namespace adjoin {

// By mode, the layer of max_pool.h or of average_pool.h. Reads the plan's spec.pool.
// Errors: kInvalidArgument for another mode than "max", "avg" and "lp".
absl::StatusOr<std::unique_ptr<LayerModule>> BuildPool(LayerContext context);

}  // namespace adjoin

#endif  // ADJOIN_LAYERS_POOL_POOL_H_
