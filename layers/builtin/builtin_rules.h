// The rules of the layers that come with Adjoin: those that builtin_rules.cc registers.
#ifndef ADJOIN_LAYERS_BUILTIN_BUILTIN_RULES_H_
#define ADJOIN_LAYERS_BUILTIN_BUILTIN_RULES_H_

#include "absl/status/status.h"
#include "layers/rules/layer_rule.h"

namespace adjoin {

const LayerRules& BuiltinLayerRules();

// Adds them to `rules`, which may hold a user's own. Errors: as LayerRules::Register.
absl::Status AddBuiltinLayerRules(LayerRules& rules);

}  // namespace adjoin

#endif  // ADJOIN_LAYERS_BUILTIN_BUILTIN_RULES_H_
