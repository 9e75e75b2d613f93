// y = x W^T + b over the last dim of [batch, ..., features].
//
// With w, a layout of the weight [out, in]: x goes to the ranks of w, its features cut as W's columns and the same for
// all of W's rows; each rank multiplies with its own block of the weight; the products are partial sums along `in`,
// moved to y by summing them. Axes along which w is the same (B) cut the batch, or what x cuts along them: data and
// tensor parallel. The bias lives and is added on the ranks of `in` index 0. Absent y: the products of those ranks.
//
// Without w, W follows from x and y: its columns are cut as the features of x; its rows as those of y along axes of the
// same mesh along which x is the same; along all other axes ranks use the same weight. Absent y: cut like x.
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
