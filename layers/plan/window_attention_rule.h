// Attention within windows of [batch, spatial ..., channels], as torchvision's ShiftedWindowAttention, of 1 to 3 spatial dims.
//
// A window is never cut: in each split dim the input is moved to whole windows of the padded tensor, rolled by the shift in
// the same movement, as an index selection modulo the padded extent ("x"). What the windows return is rolled back and cropped
// by another one ("unroll"). A dim that is neither shifted nor padded and is cut at windows moves nothing.
// Where the features are cut, or the last dim of Layer.w, the heads are, and what they return is summed over them ("y").
#ifndef ADJOIN_LAYERS_PLAN_WINDOW_ATTENTION_RULE_H_
#define ADJOIN_LAYERS_PLAN_WINDOW_ATTENTION_RULE_H_

#include "layers/plan/layer_rule.h"

namespace adjoin {

class WindowAttentionRule : public LayerRule {
 public:
  // In LayerOutcome::spec, window and shift have one value per spatial dim, 0 where nothing is shifted.
  absl::StatusOr<LayerOutcome> Apply(const LayerRequest& request) const override;
};

}  // namespace adjoin

#endif  // ADJOIN_LAYERS_PLAN_WINDOW_ATTENTION_RULE_H_
