// Max pooling in one to three spatial dims, as torch.nn.MaxPool and AdaptiveMaxPool.
//
// The role "x" fetches exactly what this rank's outputs read; beyond the input there is minus infinity, which no output
// takes that has anything else. Of a dim that is pooled to one element and cut, each rank pools its own part, and the
// roles "largest" and "positions" bring what all of them found.
//
// The first of equal elements in row-major order counts, the last of NaNs, as in LibTorch; it gets the gradient, and is
// what return_indices gives: int64, the row-major position over the spatial dims of the whole input. A dilated window
// of padding alone yields minus infinity and passes no gradient on; its index is LibTorch's, that of a position beyond
// the input.
#ifndef ADJOIN_LAYERS_POOL_MAX_POOL_H_
#define ADJOIN_LAYERS_POOL_MAX_POOL_H_

#include <memory>

#include "absl/status/statusor.h"
#include "layers/layer.h"

namespace adjoin {

// Builds the layer of a plan with the mode "max".
absl::StatusOr<std::unique_ptr<LayerModule>> BuildMaxPool(LayerContext context);

}  // namespace adjoin

#endif  // ADJOIN_LAYERS_POOL_MAX_POOL_H_
