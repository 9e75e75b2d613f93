// Convolution over 1, 2 or 3 spatial dims, cut in the batch and in the spatial dims.
//
// The input is windowed to what each rank's outputs read; every rank of the mesh uses the whole weight and bias. Their
// home is REPLICATED by default: gradients are summed once per step. Refused for now: channels that are cut,
// transposed, boundaries other than zeros.
#ifndef ADJOIN_LAYERS_PLAN_CONV_RULE_H_
#define ADJOIN_LAYERS_PLAN_CONV_RULE_H_

#include "layers/plan/layer_rule.h"

namespace adjoin {

class ConvRule : public LayerRule {
 public:
  absl::StatusOr<LayerOutcome> Apply(const LayerRequest& request) const override;
};

}  // namespace adjoin

#endif  // ADJOIN_LAYERS_PLAN_CONV_RULE_H_
