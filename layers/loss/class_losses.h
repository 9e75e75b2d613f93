// Losses of predictions [n, classes, ...] whose targets [n, ...] are the classes' numbers, or, for cross_entropy, the
// probabilities of all classes.
#ifndef ADJOIN_LAYERS_LOSS_CLASS_LOSSES_H_
#define ADJOIN_LAYERS_LOSS_CLASS_LOSSES_H_

#include "absl/status/statusor.h"
#include "layers/loss/loss_context.h"

namespace adjoin {

// Builds "cross_entropy" and "nll". The classes are whole on each rank. A mean is over the weights of the targets
// that count: NaN where none does, as in LibTorch. That of probabilities is over all positions.
absl::StatusOr<LossFunction> BuildClassLoss(LossContext context);

}  // namespace adjoin

#endif  // ADJOIN_LAYERS_LOSS_CLASS_LOSSES_H_
