// Pooling, for layers that are one under another name.
#ifndef ADJOIN_LAYERS_POOL_POOL_RULE_H_
#define ADJOIN_LAYERS_POOL_POOL_RULE_H_

#include "absl/status/statusor.h"
#include "layers/rules/layer_rule.h"

namespace adjoin {

// Reads LayerRequest.spec.pool. Errors: kInvalidArgument, at fields of Layer.
absl::StatusOr<LayerOutcome> PoolRule(const LayerRequest& request);

}  // namespace adjoin

#endif  // ADJOIN_LAYERS_POOL_POOL_RULE_H_
