// Batch normalisation as torch.nn.BatchNorm{1,2,3}d.
//
// Statistics are of the whole batch, over all ranks: each rank's own count, mean and squared deviations, in float64,
// are gathered and merged (channel_statistics.h), one movement forward and its adjoint backward. Local shapes: x and y
// [n, c, ...], all else [c]. A program that trains also updates its block of the running statistics, in the forward
// pass; others normalise with them.
// Errors: kInvalidArgument for a normalisation of another kind than "batch".
#ifndef ADJOIN_LAYERS_NORM_BATCH_NORM_H_
#define ADJOIN_LAYERS_NORM_BATCH_NORM_H_

#include <memory>

#include "absl/status/statusor.h"
#include "layers/layer.h"

namespace adjoin {

absl::StatusOr<std::unique_ptr<LayerModule>> BuildBatchNorm(LayerContext context);

}  // namespace adjoin

#endif  // ADJOIN_LAYERS_NORM_BATCH_NORM_H_
