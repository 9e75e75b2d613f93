// The rule of the layer "sharpen": what the planner has to know of it. Linked into the coordinator, `adjoin` and
// adjoin-verify.
//
//   layer { name: "sharpen1" custom { type: "sharpen" arg { key: "radius" value: "2" } } }
//
// y = x + a_c (x - m), where m is the mean of x over 2 radius + 1 neighbours along the last dim (beyond the border the
// last pixel is repeated) and a_c a trained number per channel. Its input [batch, channel, ...] may be cut in every
// dim.
#ifndef ADJOIN_EXAMPLES_CUSTOM_LAYER_SHARPEN_RULE_H_
#define ADJOIN_EXAMPLES_CUSTOM_LAYER_SHARPEN_RULE_H_

#include "layers/rules/layer_rule.h"

namespace adjoin {

absl::StatusOr<LayerOutcome> SharpenRule(const LayerRequest& request);

// The stock layers' rules and this one.
const LayerRules& RulesWithSharpen();

}  // namespace adjoin

#endif  // ADJOIN_EXAMPLES_CUSTOM_LAYER_SHARPEN_RULE_H_
