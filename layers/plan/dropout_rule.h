// torch.nn.Dropout, and Dropout1d, 2d and 3d with `channel`, in any layout: nothing moves.
//
// Whether an element stays belongs to its place in the step's batch. Programs that do not train leave the input as it is.
#ifndef ADJOIN_LAYERS_PLAN_DROPOUT_RULE_H_
#define ADJOIN_LAYERS_PLAN_DROPOUT_RULE_H_

#include "layers/plan/layer_rule.h"

namespace adjoin {

class DropoutRule : public LayerRule {
 public:
  absl::StatusOr<LayerOutcome> Apply(const LayerRequest& request) const override;
};

}  // namespace adjoin

#endif  // ADJOIN_LAYERS_PLAN_DROPOUT_RULE_H_
