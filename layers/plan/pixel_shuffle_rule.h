// torch.nn.PixelShuffle and PixelUnshuffle over 1, 2 or 3 spatial dims: groups of r^k channels become blocks of r x ... x r
// pixels, or the other way round.
//
// Nothing moves where the cuts of the channels (of the pixels, the other way round) lie between such groups. Elsewhere the
// input is moved to the nearest cuts that do.
#ifndef ADJOIN_LAYERS_PLAN_PIXEL_SHUFFLE_RULE_H_
#define ADJOIN_LAYERS_PLAN_PIXEL_SHUFFLE_RULE_H_

#include "layers/plan/layer_rule.h"

namespace adjoin {

// Of the kinds "pixel_shuffle" and "pixel_unshuffle".
class PixelShuffleRule : public LayerRule {
 public:
  absl::StatusOr<LayerOutcome> Apply(const LayerRequest& request) const override;
};

}  // namespace adjoin

#endif  // ADJOIN_LAYERS_PLAN_PIXEL_SHUFFLE_RULE_H_
