// A layer of a type that has no serial function, run by the ranks' own code on one rank: what is left to compare a
// user's layer with. It shows whether partitioning changes the result, not whether the layer computes what it should.
//
//   functions.Register("my_layer", OneRankLayer(rules, layers));
#ifndef ADJOIN_VERIFY_ONE_RANK_LAYER_H_
#define ADJOIN_VERIFY_ONE_RANK_LAYER_H_

#include "layers/registry.h"
#include "layers/rules/layer_rule.h"
#include "layers/serial_functions.h"

namespace adjoin {

// For one layer: the function keeps what it has built. `rules` and `layers` outlive it. It throws StatusException for
// what the layer's rule or builder refuses.
SerialFunction OneRankLayer(const LayerRules& rules, const LayerRegistry& layers);

}  // namespace adjoin

#endif  // ADJOIN_VERIFY_ONE_RANK_LAYER_H_
