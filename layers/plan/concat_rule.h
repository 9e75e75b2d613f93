// torch.cat of all inputs along one dim, in any layouts, the dim itself cut or not.
//
// The result lies as y says, or like the first input, that dim cut evenly. Of each input a rank reads what its part of
// the result holds of it: these are the parts of a layout whose cuts are those of the result, seen from the input.
#ifndef ADJOIN_LAYERS_PLAN_CONCAT_RULE_H_
#define ADJOIN_LAYERS_PLAN_CONCAT_RULE_H_

#include "layers/plan/layer_rule.h"

namespace adjoin {

class ConcatRule : public LayerRule {
 public:
  absl::StatusOr<LayerOutcome> Apply(const LayerRequest& request) const override;
};

}  // namespace adjoin

#endif  // ADJOIN_LAYERS_PLAN_CONCAT_RULE_H_
