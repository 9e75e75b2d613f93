// The product of all inputs: a builder for the registry.
//
//   registry.Register("multiply", BuildMultiply);
//
// The plan brings all of them to one layout, so their local tensors have one shape. It can be differentiated any number of
// times.
#ifndef ADJOIN_LAYERS_MULTIPLY_H_
#define ADJOIN_LAYERS_MULTIPLY_H_

#include <memory>

#include "absl/status/statusor.h"
#include "layers/layer.h"

namespace adjoin {

absl::StatusOr<std::unique_ptr<LayerModule>> BuildMultiply(LayerContext context);

}  // namespace adjoin

#endif  // ADJOIN_LAYERS_MULTIPLY_H_
