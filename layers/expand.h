// torch.expand of the local tensor: a builder for the registry.
//
//   registry.Register("expand", BuildExpand);
//
// The role "x" brings what this rank repeats: 1 element in dims that grow. Returns a view, which takes no memory; its
// gradient is summed over what was repeated, on this rank by LibTorch and over ranks by the adjoint of "x".
#ifndef ADJOIN_LAYERS_EXPAND_H_
#define ADJOIN_LAYERS_EXPAND_H_

#include <memory>

#include "absl/status/statusor.h"
#include "layers/layer.h"

namespace adjoin {

absl::StatusOr<std::unique_ptr<LayerModule>> BuildExpand(LayerContext context);

}  // namespace adjoin

#endif  // ADJOIN_LAYERS_EXPAND_H_
