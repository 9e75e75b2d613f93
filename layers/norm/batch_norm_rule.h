// Batch normalisation of [batch, channels, up to 3 more dims], cut in any of them.
//
// Each rank adds up its elements per channel; the sums are partial along every axis that cuts another dim, and one
// all-sum-reduce for the mean and one for the variance complete them, in float64. A replicated input counts once. All
// that is kept per channel (weight, bias, running statistics) is cut as the input's channels are.
#ifndef ADJOIN_LAYERS_NORM_BATCH_NORM_RULE_H_
#define ADJOIN_LAYERS_NORM_BATCH_NORM_RULE_H_

#include "layers/rules/layer_rule.h"

namespace adjoin {

// The rule of the layer "norm" where its kind is "batch". NormRule has checked the message, and hands it over.
absl::StatusOr<LayerOutcome> BatchNormRule(const LayerRequest& request);

}  // namespace adjoin

#endif  // ADJOIN_LAYERS_NORM_BATCH_NORM_RULE_H_
