// torch.flatten: merges neighbouring dims into one, without moving anything.
//
// That is possible where, of the merged dims, only the first with more than one element is cut: each part is then one
// run of the merged dim. Elsewhere the error names a repartition that makes it so.
#ifndef ADJOIN_LAYERS_PLAN_FLATTEN_RULE_H_
#define ADJOIN_LAYERS_PLAN_FLATTEN_RULE_H_

#include "layers/plan/layer_rule.h"

namespace adjoin {

class FlattenRule : public LayerRule {
 public:
  absl::StatusOr<LayerOutcome> Apply(const LayerRequest& request) const override;
};

}  // namespace adjoin

#endif  // ADJOIN_LAYERS_PLAN_FLATTEN_RULE_H_
