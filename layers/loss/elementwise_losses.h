// Losses that compare the prediction with a target of its shape, element by element: every rank those that it has.
#ifndef ADJOIN_LAYERS_LOSS_ELEMENTWISE_LOSSES_H_
#define ADJOIN_LAYERS_LOSS_ELEMENTWISE_LOSSES_H_

#include "absl/status/statusor.h"
#include "layers/loss/loss_context.h"

namespace adjoin {

// Each is LibTorch's of the same name. One value of pos_weight is for all channels (dim 1).
// `delta` is smooth_l1's beta. The predictions of bce are in [0, 1]: LibTorch throws where one is not. Gaussian_nll
// is torch.nn.functional.gaussian_nll_loss.
absl::StatusOr<LossFunction> BuildMse(LossContext context);
absl::StatusOr<LossFunction> BuildL1(LossContext context);
absl::StatusOr<LossFunction> BuildHuber(LossContext context);
absl::StatusOr<LossFunction> BuildSmoothL1(LossContext context);
absl::StatusOr<LossFunction> BuildBce(LossContext context);
absl::StatusOr<LossFunction> BuildBceWithLogits(LossContext context);
absl::StatusOr<LossFunction> BuildPoissonNll(LossContext context);
absl::StatusOr<LossFunction> BuildGaussianNll(LossContext context);
absl::StatusOr<LossFunction> BuildKlDiv(LossContext context);

}  // namespace adjoin

#endif  // ADJOIN_LAYERS_LOSS_ELEMENTWISE_LOSSES_H_
