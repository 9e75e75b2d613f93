// torch.permute of the local tensor: a builder for the registry.
//
//   registry.Register("permute", BuildPermute);
//
// Returns a view: local shapes are each other with the dims in another order.
#ifndef ADJOIN_LAYERS_PERMUTE_H_
#define ADJOIN_LAYERS_PERMUTE_H_

#include <memory>

#include "absl/status/statusor.h"
#include "layers/layer.h"

namespace adjoin {

absl::StatusOr<std::unique_ptr<LayerModule>> BuildPermute(LayerContext context);

}  // namespace adjoin

#endif  // ADJOIN_LAYERS_PERMUTE_H_
