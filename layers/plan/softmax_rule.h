// torch.nn.Softmax and LogSoftmax over one dim, in any layout, the dim itself cut or not.
//
// Where the dim is whole on each rank, nothing moves. Else a largest element and a sum per row go over the ranks that
// share the row: the maximum only shifts the exponents, so no gradient passes through it.
#ifndef ADJOIN_LAYERS_PLAN_SOFTMAX_RULE_H_
#define ADJOIN_LAYERS_PLAN_SOFTMAX_RULE_H_

#include "layers/plan/layer_rule.h"

namespace adjoin {

class SoftmaxRule : public LayerRule {
 public:
  absl::StatusOr<LayerOutcome> Apply(const LayerRequest& request) const override;
};

}  // namespace adjoin

#endif  // ADJOIN_LAYERS_PLAN_SOFTMAX_RULE_H_
