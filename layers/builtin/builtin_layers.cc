#include "layers/builtin/builtin_layers.h"

#include <memory>

namespace adjoin {

#define ADJOIN_LAYER(kind, rule, builder, serial) \
  absl::StatusOr<std::unique_ptr<LayerModule>> builder(LayerContext context);
#include "layers/builtin/builtin_layers.inc"
#undef ADJOIN_LAYER

LayerRegistry BuiltinLayers() {
  LayerRegistry registry;
#define ADJOIN_LAYER(kind, rule, builder, serial) registry.Register(#kind, builder);
#include "layers/builtin/builtin_layers.inc"
#undef ADJOIN_LAYER
  return registry;
}

}  // namespace adjoin
