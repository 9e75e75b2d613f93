// y = x W^T + b over the last dim, as torch.nn.Linear, with the weight cut over P_out x P_in: a builder for the
// registry.
//
//   registry.Register("linear", BuildLinear);
//
// Each rank multiplies its part of x with its block of W: a partial sum over the ranks along P_in, which the role "y"
// adds up. The plan gives the bias to the first of those ranks, so it is added once; elsewhere it has no elements.
// Any number of leading dims.
#ifndef ADJOIN_LAYERS_LINEAR_H_
#define ADJOIN_LAYERS_LINEAR_H_

#include <memory>

#include "absl/status/statusor.h"
#include "layers/layer.h"

namespace adjoin {

absl::StatusOr<std::unique_ptr<LayerModule>> BuildLinear(LayerContext context);

}  // namespace adjoin

#endif  // ADJOIN_LAYERS_LINEAR_H_
