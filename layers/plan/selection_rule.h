// Layers whose outputs each are one element of the input: roll, flip, repeat and index_select, over any dims, cut or not.
//
// Each is a reading (primitives/geometry/index_selection.h): a rank fetches the cells that its part of the output holds,
// each once, and nothing is left to compute. The output is cut as the input, in dims of another extent evenly, or as y says.
#ifndef ADJOIN_LAYERS_PLAN_SELECTION_RULE_H_
#define ADJOIN_LAYERS_PLAN_SELECTION_RULE_H_

#include "layers/plan/layer_rule.h"

namespace adjoin {

// Of the kinds "flip", "index_select", "repeat" and "roll".
class SelectionRule : public LayerRule {
 public:
  absl::StatusOr<LayerOutcome> Apply(const LayerRequest& request) const override;
};

}  // namespace adjoin

#endif  // ADJOIN_LAYERS_PLAN_SELECTION_RULE_H_
