// Soft Dice: 1 - the mean over the classes of (2 sum(p t) + smooth) / (sum(p) + sum(t) + smooth).
//
// Each sum is over one class's predictions p and targets t in the whole batch and space, on all ranks; p are
// probabilities, to which nothing is applied. Since the quotient is not linear in the sums, they are summed over the
// ranks within the graph; the result, the same on every rank, counts on one.
#ifndef ADJOIN_LAYERS_LOSS_DICE_LOSS_H_
#define ADJOIN_LAYERS_LOSS_DICE_LOSS_H_

#include "absl/status/statusor.h"
#include "layers/loss/loss_context.h"

namespace adjoin {

// Targets: int64 classes [n, ...], of which each element is 1 for its class and 0 for the others; or numbers, of the
// prediction's shape. Any dim may be cut, the classes too.
absl::StatusOr<LossFunction> BuildDice(LossContext context);

}  // namespace adjoin

#endif  // ADJOIN_LAYERS_LOSS_DICE_LOSS_H_
