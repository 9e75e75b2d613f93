// Normalisation as torch.nn.GroupNorm, InstanceNorm, LayerNorm and RMSNorm, and, by batch_norm.h, as BatchNorm: a builder
// for the registry.
//
//   registry.Register("norm", BuildNorm);
//
// Sums are in float64 and of deviations from the mean of all ranks' elements (channel_statistics.h), each of them added up
// over the ranks by one movement where a cut goes through what is normalised together ("mean", "deviations"). A rank
// without cells adds zeros. Of the input nothing is kept for the backward pass but itself, and the normalised values where
// "layer" and "rms" have a weight. It can be differentiated twice. Local shapes: x and y alike; weight and bias [c] of
// this rank's channels, or of its part of the normalised dims.
// Errors: kInvalidArgument for a kind that is not known, and where the plan's layout is none.
#ifndef ADJOIN_LAYERS_NORM_H_
#define ADJOIN_LAYERS_NORM_H_

#include <memory>

#include "absl/status/statusor.h"
#include "layers/layer.h"

namespace adjoin {

absl::StatusOr<std::unique_ptr<LayerModule>> BuildNorm(LayerContext context);

}  // namespace adjoin

#endif  // ADJOIN_LAYERS_NORM_H_
