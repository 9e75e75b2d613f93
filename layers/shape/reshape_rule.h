// torch.Tensor.reshape of every sample.
//
// Where each rank's part is a block of the result (primitives/geometry/reshape.h), no element leaves its rank.
// Elsewhere x is moved before, to a layout from which that is so.
#ifndef ADJOIN_LAYERS_SHAPE_RESHAPE_RULE_H_
#define ADJOIN_LAYERS_SHAPE_RESHAPE_RULE_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "layers/rules/layer_rule.h"

namespace adjoin {

// Returns the outcome of a layer that only gives its one input another shape with as many elements. `spec` has the
// defaults filled in.
// Errors: kInvalidArgument, at "x[0]" with an advice, where the layout that Layer.x names would have to be left.
absl::StatusOr<LayerOutcome> ReshapeTo(const LayerRequest& request, const std::vector<int64_t>& shape, Layer spec);

}  // namespace adjoin

#endif  // ADJOIN_LAYERS_SHAPE_RESHAPE_RULE_H_
