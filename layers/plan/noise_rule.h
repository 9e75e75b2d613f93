// Normal numbers added to the input, or one plus them multiplied with it, in any layout: nothing moves.
//
// An element's number belongs to its place in the step's batch. Programs that do not train leave the input as it is.
#ifndef ADJOIN_LAYERS_PLAN_NOISE_RULE_H_
#define ADJOIN_LAYERS_PLAN_NOISE_RULE_H_

#include "layers/plan/layer_rule.h"

namespace adjoin {

class NoiseRule : public LayerRule {
 public:
  absl::StatusOr<LayerOutcome> Apply(const LayerRequest& request) const override;
};

}  // namespace adjoin

#endif  // ADJOIN_LAYERS_PLAN_NOISE_RULE_H_
