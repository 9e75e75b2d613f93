// An element-wise function: local in every layout; the output lies as the input does.
//
// Of prelu, the weight (one number, or one per channel) lies as the input's channels do.
#ifndef ADJOIN_LAYERS_PLAN_ACTIVATION_RULE_H_
#define ADJOIN_LAYERS_PLAN_ACTIVATION_RULE_H_

#include "layers/plan/layer_rule.h"

namespace adjoin {

// Those of activation_functions.h.
class ActivationRule : public LayerRule {
 public:
  absl::StatusOr<LayerOutcome> Apply(const LayerRequest& request) const override;
};

}  // namespace adjoin

#endif  // ADJOIN_LAYERS_PLAN_ACTIVATION_RULE_H_
