// Upsampling in one to three spatial dims, as torch.nn.Upsample: a builder for the registry.
//
//   registry.Register("upsample", BuildUpsample);
//
// The role "x" fetches the box that this rank's outputs are interpolated from. Source cells and weights belong to
// global indices, and LibTorch's own kernels would take the box for the whole input; so each spatial dim in turn is a
// weighted sum of selections, with indices and weights made once. It can be differentiated any number of times; the
// gradient is the adjoint of the forward pass.
// Errors: kInvalidArgument (as InterpolationsOf of layers/plan/upsample_rule.h).
#ifndef ADJOIN_LAYERS_UPSAMPLE_H_
#define ADJOIN_LAYERS_UPSAMPLE_H_

#include <memory>

#include "absl/status/statusor.h"
#include "layers/layer.h"

namespace adjoin {

absl::StatusOr<std::unique_ptr<LayerModule>> BuildUpsample(LayerContext context);

}  // namespace adjoin

#endif  // ADJOIN_LAYERS_UPSAMPLE_H_
