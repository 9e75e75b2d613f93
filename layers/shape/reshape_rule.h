// torch.Tensor.reshape of every sample: no element leaves its rank.
//
// That is possible where each rank's part is a block of the result (primitives/geometry/reshape.h). Elsewhere the error
// names a repartition that makes it so: moving a tensor is a step of its own, which a job shows.
#ifndef ADJOIN_LAYERS_SHAPE_RESHAPE_RULE_H_
#define ADJOIN_LAYERS_SHAPE_RESHAPE_RULE_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "layers/rules/layer_rule.h"

namespace adjoin {

// Returns the outcome of a layer that only gives its one input another shape with as many elements. `spec` has the
// defaults filled in.
// Errors: kInvalidArgument, with an advice, where it would move data.
absl::StatusOr<LayerOutcome> LocalReshape(const LayerRequest& request, const std::vector<int64_t>& shape, Layer spec);

}  // namespace adjoin

#endif  // ADJOIN_LAYERS_SHAPE_RESHAPE_RULE_H_
