// The sum, or the product, of all inputs, which have one shape and any layouts.
//
// It is computed where the first input lies; the others are moved there.
#ifndef ADJOIN_LAYERS_PLAN_ADD_RULE_H_
#define ADJOIN_LAYERS_PLAN_ADD_RULE_H_

#include "layers/plan/layer_rule.h"

namespace adjoin {

// Of the kinds "add" and "multiply".
class AddRule : public LayerRule {
 public:
  absl::StatusOr<LayerOutcome> Apply(const LayerRequest& request) const override;
};

}  // namespace adjoin

#endif  // ADJOIN_LAYERS_PLAN_ADD_RULE_H_
