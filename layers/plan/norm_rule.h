// Normalisation over groups, instances (each channel of each sample), the last dims ("layer", "rms"), and of the kind
// "batch", which batch_norm_rule.h plans; all in any layout.
//
// Each rank adds up its own elements of each set that is normalised together. Where a cut goes through a set, one sum
// over the ranks gives the mean ("mean") and one the squares of the deviations from it ("deviations"), so that nothing is
// lost where the mean is large; "rms", whose deviations are from zero, needs the latter only. Elsewhere nothing moves.
// Weight and bias lie as x's channels do, or as its normalised dims.
#ifndef ADJOIN_LAYERS_PLAN_NORM_RULE_H_
#define ADJOIN_LAYERS_PLAN_NORM_RULE_H_

#include "layers/plan/layer_rule.h"

namespace adjoin {

class NormRule : public LayerRule {
 public:
  absl::StatusOr<LayerOutcome> Apply(const LayerRequest& request) const override;
};

}  // namespace adjoin

#endif  // ADJOIN_LAYERS_PLAN_NORM_RULE_H_
