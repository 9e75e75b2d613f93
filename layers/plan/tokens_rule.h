// [batch, count, features]: the same trained vectors, the parameter "weight" [count, features], for every sample.
//
// Of the input, [batch, ..., features], shape and layout count: batch and features are cut as there; along axes that cut its
// other dims all ranks have the same. Nothing moves but the parameter. The input's gradient is zero.
#ifndef ADJOIN_LAYERS_PLAN_TOKENS_RULE_H_
#define ADJOIN_LAYERS_PLAN_TOKENS_RULE_H_

#include "layers/plan/layer_rule.h"

namespace adjoin {

class TokensRule : public LayerRule {
 public:
  absl::StatusOr<LayerOutcome> Apply(const LayerRequest& request) const override;
};

}  // namespace adjoin

#endif  // ADJOIN_LAYERS_PLAN_TOKENS_RULE_H_
