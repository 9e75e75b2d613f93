// y = x W^T + b over [batch, features].
//
// With w, a layout [out, in] over P_out x P_in ranks: x goes to S(1) along `in` and to every index of `out`; each rank
// multiplies with its own block of the weight; the products are partial sums along `in`, moved to y by summing them.
// The bias lives and is added on the ranks of `in` index 0. Absent y: the features cut over those ranks.
//
// Without w: the batch may be cut, every rank of x uses the whole weight and bias. Home REPLICATED by default.
#ifndef ADJOIN_LAYERS_PLAN_LINEAR_RULE_H_
#define ADJOIN_LAYERS_PLAN_LINEAR_RULE_H_

#include "layers/plan/layer_rule.h"

namespace adjoin {

class LinearRule : public LayerRule {
 public:
  absl::StatusOr<LayerOutcome> Apply(const LayerRequest& request) const override;
};

}  // namespace adjoin

#endif  // ADJOIN_LAYERS_PLAN_LINEAR_RULE_H_
