// torch.permute: the dims in another order, in any layout, without moving anything: the same axes cut the same dims at the
// same places, under their new numbers.
#ifndef ADJOIN_LAYERS_PLAN_PERMUTE_RULE_H_
#define ADJOIN_LAYERS_PLAN_PERMUTE_RULE_H_

#include "layers/plan/layer_rule.h"

namespace adjoin {

class PermuteRule : public LayerRule {
 public:
  absl::StatusOr<LayerOutcome> Apply(const LayerRequest& request) const override;
};

}  // namespace adjoin

#endif  // ADJOIN_LAYERS_PLAN_PERMUTE_RULE_H_
