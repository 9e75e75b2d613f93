// The roles of losses' movements.
#ifndef ADJOIN_LAYERS_LOSS_LOSS_ROLES_H_
#define ADJOIN_LAYERS_LOSS_LOSS_ROLES_H_

namespace adjoin {

// To the layout in which every element of the prediction counts once: done before the loss is asked.
inline constexpr char kRolePrediction[] = "prediction";
// To where the prediction is compared: the variance of gaussian_nll, likewise done before.
inline constexpr char kRoleVariance[] = "variance";
// [1], P -> B: the weights of the targets that count, summed over all ranks; a mean is divided by them.
inline constexpr char kRoleCount[] = "count";
// For dice, [3, classes], P -> B: per class the sums of the products, the predictions and the targets. For cosine,
// [batch, 3, ...], from P along the channels to where each position is on one rank: the sums of the products, the
// predictions' squares and the targets' squares.
inline constexpr char kRoleSums[] = "sums";
// [1], B -> P: the result, the same on every rank, counts on one.
inline constexpr char kRoleShare[] = "share";

}  // namespace adjoin

#endif  // ADJOIN_LAYERS_LOSS_LOSS_ROLES_H_
