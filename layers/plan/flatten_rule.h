// torch.flatten: merges neighbouring dims into one, without moving anything.
//
// That is possible where each part is one run of the merged dim, as where only the first of the merged dims with more than
// one element is cut. Elsewhere the error names a repartition that makes it so.
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
