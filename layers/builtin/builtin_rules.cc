#include "layers/builtin/builtin_rules.h"

#include "base/status_macros.h"

namespace adjoin {

#define ADJOIN_LAYER(kind, rule, builder, serial) absl::StatusOr<LayerOutcome> rule(const LayerRequest& request);
#include "layers/builtin/builtin_layers.inc"
#undef ADJOIN_LAYER

absl::Status AddBuiltinLayerRules(LayerRules& rules) {
#define ADJOIN_LAYER(kind, rule, builder, serial) ADJOIN_RETURN_IF_ERROR(rules.Register(#kind, rule));
#include "layers/builtin/builtin_layers.inc"
#undef ADJOIN_LAYER
  return absl::OkStatus();
}

const LayerRules& BuiltinLayerRules() {
  static const LayerRules* rules = [] {
    auto* made = new LayerRules;
    // Cannot fail: the registry is empty, and the compiler refuses two fields of one name in Layer.op.
    AddBuiltinLayerRules(*made).IgnoreError();
    return made;
  }();
  return *rules;
}

}  // namespace adjoin
