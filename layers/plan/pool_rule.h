// Pooling over 1, 2 or 3 spatial dims (torch.nn.MaxPool, AvgPool, LPPool, AdaptiveMaxPool and AdaptiveAvgPool), cut in
// any dim, the channels included.
//
// Each rank fetches what its outputs read; the padding is minus infinity for the maximum, else 0. The output is cut in
// batch and channels as the input, in the spatial dims evenly unless y says otherwise. A dim that adaptive_size pools
// to one element is then whole on all ranks that shared it: each pools its own part, and the results are added up or
// compared.
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
