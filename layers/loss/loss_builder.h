// From a plan's loss to the function that computes it.
//
//   ADJOIN_ASSIGN_OR_RETURN(LossFunction loss, BuildLoss(std::move(context)));
//   torch::Tensor share = loss({prediction, target}, tape);   // on every rank; the shares add up to the loss
#ifndef ADJOIN_LAYERS_LOSS_LOSS_BUILDER_H_
#define ADJOIN_LAYERS_LOSS_LOSS_BUILDER_H_

#include "absl/status/statusor.h"
#include "layers/loss/loss_context.h"

namespace adjoin {

// Errors: kInvalidArgument for a kind that has no builder (lists the known ones).
absl::StatusOr<LossFunction> BuildLoss(LossContext context);

}  // namespace adjoin

#endif  // ADJOIN_LAYERS_LOSS_LOSS_BUILDER_H_
