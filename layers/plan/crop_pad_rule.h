// Layers pad and crop: torch.nn.functional.pad with zeros, and its opposite, over any dims, cut in any dim.
//
// Both are windows of one element with a padding, negative where elements are left out. The output is cut as the input,
// in the dims that change evenly unless y says otherwise.
#ifndef ADJOIN_LAYERS_PLAN_CROP_PAD_RULE_H_
#define ADJOIN_LAYERS_PLAN_CROP_PAD_RULE_H_

#include "layers/plan/layer_rule.h"

namespace adjoin {

// Of the kinds "crop" and "pad".
class CropPadRule : public LayerRule {
 public:
  absl::StatusOr<LayerOutcome> Apply(const LayerRequest& request) const override;
};

}  // namespace adjoin

#endif  // ADJOIN_LAYERS_PLAN_CROP_PAD_RULE_H_
