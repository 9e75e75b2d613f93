// torch.nn.Dropout and its forms for whole channels: a builder for the registry.
//
//   registry.Register("dropout", BuildDropout);
//
// In programs that train each element stays where its number (placed_random.h) is at least p, divided by 1 - p, and is 0
// elsewhere; p = 1 leaves zeros. Elsewhere the layer returns its input. A second run (recompute) draws the same. It can be
// differentiated any number of times. Local shapes: x and y alike.
// Errors: kInvalidArgument where the plan's layout is none.
#ifndef ADJOIN_LAYERS_DROPOUT_H_
#define ADJOIN_LAYERS_DROPOUT_H_

#include <memory>

#include "absl/status/statusor.h"
#include "layers/layer.h"

namespace adjoin {

absl::StatusOr<std::unique_ptr<LayerModule>> BuildDropout(LayerContext context);

}  // namespace adjoin

#endif  // ADJOIN_LAYERS_DROPOUT_H_
