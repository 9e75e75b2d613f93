// Max pooling over 1, 2 or 3 spatial dims, cut in the batch and in the spatial dims. Padding is minus infinity.
#ifndef ADJOIN_LAYERS_PLAN_POOL_RULE_H_
#define ADJOIN_LAYERS_PLAN_POOL_RULE_H_

#include "layers/plan/layer_rule.h"

namespace adjoin {

class PoolRule : public LayerRule {
 public:
  absl::StatusOr<LayerOutcome> Apply(const LayerRequest& request) const override;
};

}  // namespace adjoin

#endif  // ADJOIN_LAYERS_PLAN_POOL_RULE_H_
