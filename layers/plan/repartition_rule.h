// Changes nothing but the layout, to Layer.y.
#ifndef ADJOIN_LAYERS_PLAN_REPARTITION_RULE_H_
#define ADJOIN_LAYERS_PLAN_REPARTITION_RULE_H_

#include "layers/plan/layer_rule.h"

namespace adjoin {

class RepartitionRule : public LayerRule {
 public:
  absl::StatusOr<LayerOutcome> Apply(const LayerRequest& request) const override;
};

}  // namespace adjoin

#endif  // ADJOIN_LAYERS_PLAN_REPARTITION_RULE_H_
