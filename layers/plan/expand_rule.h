// torch.Tensor.expand: dims of extent 1, and new ones in front, repeat what they hold.
//
// Only the input moves, which is smaller: each rank fetches what its part of the output repeats. The output is cut as the
// input, in dims that grow evenly, or as y says.
#ifndef ADJOIN_LAYERS_PLAN_EXPAND_RULE_H_
#define ADJOIN_LAYERS_PLAN_EXPAND_RULE_H_

#include "layers/plan/layer_rule.h"

namespace adjoin {

class ExpandRule : public LayerRule {
 public:
  absl::StatusOr<LayerOutcome> Apply(const LayerRequest& request) const override;
};

}  // namespace adjoin

#endif  // ADJOIN_LAYERS_PLAN_EXPAND_RULE_H_
