// Convolution in one to three spatial dims, as torch.nn.Conv{1,2,3}d and ConvTranspose{1,2,3}d: a builder for the
// registry.
//
//   registry.Register("conv", BuildConv);
//
// The role "x" fetches exactly what this rank's outputs read, the physical boundary included, so the local kernel runs
// without padding; stride, dilation and uneven cuts need nothing special. A transposed kernel returns all that its
// inputs give to, which is then cut, or extended with zeros, to this rank's outputs. Local shapes, of this rank's share
// of the channels and groups: x [n, ci, ...], weight [co, ci / groups, ...] (transposed: [ci, co / groups, ...]), bias
// [co] or empty, y [n, co, ...].
#ifndef ADJOIN_LAYERS_CONV_H_
#define ADJOIN_LAYERS_CONV_H_

#include <memory>

#include "absl/status/statusor.h"
#include "layers/layer.h"

namespace adjoin {

absl::StatusOr<std::unique_ptr<LayerModule>> BuildConv(LayerContext context);

}  // namespace adjoin

#endif  // ADJOIN_LAYERS_CONV_H_
