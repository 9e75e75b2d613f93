// The layer "sharpen" on one rank (sharpen_rule.h says what it computes). Linked into the rank process and
// adjoin-verify.
//
//   LayerRegistry layers = BuiltinLayers();
//   layers.Register("sharpen", BuildSharpen);
#ifndef ADJOIN_EXAMPLES_CUSTOM_LAYER_SHARPEN_H_
#define ADJOIN_EXAMPLES_CUSTOM_LAYER_SHARPEN_H_

#include <memory>

#include "absl/status/statusor.h"
#include "layers/layer.h"

namespace adjoin {

absl::StatusOr<std::unique_ptr<LayerModule>> BuildSharpen(LayerContext context);

}  // namespace adjoin

#endif  // ADJOIN_EXAMPLES_CUSTOM_LAYER_SHARPEN_H_
