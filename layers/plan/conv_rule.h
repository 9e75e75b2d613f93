// Convolution and transposed convolution over 1, 2 or 3 spatial dims: every dim may be cut, the channels too.
//
//   without w, channels whole   every rank of x uses the whole weight and bias; home REPLICATED by default; or what it
//                               needs for its part of y, along axes of one mesh that cut y's channels and nothing of x
//   without w, channels cut     no input moves, but for halos: where parts hold whole groups, each rank has the weight
//                               of its groups; else the products are partial sums, moved to y by summing them
//   with w                      a partition of the weight, [out, in] parts (transposed: [in, out]): x goes to where the
//                               blocks are that multiply it, the sums over `in` go to y
//
// conv_grid.h says how. Parts of the kernel's dims in w, and axes along which it is B, cut the spatial dims and the
// batch. With several groups, w is read as so many ranks: each gets whole groups or part of one, whichever fits.
// Large parts of a convolution that returns as many outputs as it reads stay where they are: edge_halo.h.
// Home OWNER without an owner, of a weight in blocks: each on the first rank that uses it.
#ifndef ADJOIN_LAYERS_PLAN_CONV_RULE_H_
#define ADJOIN_LAYERS_PLAN_CONV_RULE_H_

#include "layers/plan/layer_rule.h"

namespace adjoin {

class ConvRule : public LayerRule {
 public:
  absl::StatusOr<LayerOutcome> Apply(const LayerRequest& request) const override;
};

}  // namespace adjoin

#endif  // ADJOIN_LAYERS_PLAN_CONV_RULE_H_
