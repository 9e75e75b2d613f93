// Convolution in one to three spatial dims, as torch.nn.Conv{1,2,3}d: a builder for the registry.
//
//   registry.Register("conv", BuildConv);
//
// The role "x" fetches exactly what this rank's outputs read, the physical boundary included, so the local kernel runs
// without padding; stride, dilation and uneven cuts need nothing special. Local shapes: x [n, ci, ...], weight
// [co, ci / groups, ...], bias [co], y [n, co, ...].
// Errors: kInvalidArgument for a transposed convolution.
#ifndef ADJOIN_LAYERS_CONV_H_
#define ADJOIN_LAYERS_CONV_H_

#include <memory>

#include "absl/status/statusor.h"
#include "layers/layer.h"

namespace adjoin {

absl::StatusOr<std::unique_ptr<LayerModule>> BuildConv(LayerContext context);

}  // namespace adjoin

#endif  // ADJOIN_LAYERS_CONV_H_
