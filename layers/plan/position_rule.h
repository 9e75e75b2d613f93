// Adds a vector for each position of [batch, ..., features], in any layout: nothing moves but the parameter.
//
// "learned": the parameter "weight" has the shape of one sample and is cut as the input's dims are, the same along axes that cut
// the batch. "sinusoidal", of one length dim: no parameters.
#ifndef ADJOIN_LAYERS_PLAN_POSITION_RULE_H_
#define ADJOIN_LAYERS_PLAN_POSITION_RULE_H_

#include "layers/plan/layer_rule.h"

namespace adjoin {

class PositionRule : public LayerRule {
 public:
  absl::StatusOr<LayerOutcome> Apply(const LayerRequest& request) const override;
};

}  // namespace adjoin

#endif  // ADJOIN_LAYERS_PLAN_POSITION_RULE_H_
