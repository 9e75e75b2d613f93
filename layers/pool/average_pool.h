// Average and power-average pooling in one to three spatial dims, as torch.nn.AvgPool, AdaptiveAvgPool and LPPool.
//
// The role "x" fetches exactly what this rank's outputs read, zeros beyond the input. The local kernel adds up; what a
// sum is divided by depends on where its window is in the whole input. Of a dim that is pooled to one element and
// cut, each rank adds up its own part, and the role "y" adds these.
#ifndef ADJOIN_LAYERS_POOL_AVERAGE_POOL_H_
#define ADJOIN_LAYERS_POOL_AVERAGE_POOL_H_

#include <memory>

#include "absl/status/statusor.h"
#include "layers/layer.h"

namespace adjoin {

// Builds the layer of a plan with the mode "avg" or "lp".
absl::StatusOr<std::unique_ptr<LayerModule>> BuildAveragePool(LayerContext context);

}  // namespace adjoin

#endif  // ADJOIN_LAYERS_POOL_AVERAGE_POOL_H_
