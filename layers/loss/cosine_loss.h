// 1 - the cosine between prediction and target along dim 1, as torch.nn.functional.cosine_similarity has it with eps
// 1e-8: the mean over all positions in the other dims, or the sum.
//
// Any dim may be cut. Where the channels are, the products and squares of each position are summed over the ranks that
// share it, and one of them takes the position from there.
#ifndef ADJOIN_LAYERS_LOSS_COSINE_LOSS_H_
#define ADJOIN_LAYERS_LOSS_COSINE_LOSS_H_

#include "absl/status/statusor.h"
#include "layers/loss/loss_context.h"

namespace adjoin {

// Targets: numbers, of the prediction's shape. A norm below eps counts as eps, a constant.
absl::StatusOr<LossFunction> BuildCosine(LossContext context);

}  // namespace adjoin

#endif  // ADJOIN_LAYERS_LOSS_COSINE_LOSS_H_
