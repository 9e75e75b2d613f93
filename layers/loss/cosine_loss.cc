#include "layers/loss/cosine_loss.h"

#include <utility>

#include <ATen/TensorOperators.h>
#include <ATen/ops/stack.h>

#include "layers/loss/loss_roles.h"

namespace adjoin {
namespace {

constexpr double kLeastNorm = 1e-8;

// [n, 3, ...] of this rank's channels, float64: products, squares of the prediction, squares of the target. On a rank
// that takes no part (0, ..., 0).
at::Tensor OwnSums(const LossContext& context, const LossTensors& x) {
  if (!context.takes_part) return x.prediction.to(at::kDouble);
  const auto sum = [](const at::Tensor& product) { return product.sum(1, /*keepdim=*/false, at::kDouble); };
  return at::stack({sum(x.prediction * x.target), sum(x.prediction * x.prediction), sum(x.target * x.target)}, 1);
}

// The norm, at least eps, where it is a constant. (The gradient of the root of 0 would be infinite.)
at::Tensor NormAboveEps(const at::Tensor& squares) { return squares.clamp_min(kLeastNorm * kLeastNorm).sqrt(); }

}  // namespace

absl::StatusOr<LossFunction> BuildCosine(LossContext context) {
  // The number of positions.
  const double divisor =
      context.spec.reduction() == "sum" ? 1 : MeanDivisor(context) / static_cast<double>(context.shape.at(1));
  return LossFunction([context = std::move(context), divisor](const LossTensors& x, Tape& tape) {
    const at::Tensor sums = MoveForLoss(context, kRoleSums, OwnSums(context, x), tape);
    if (sums.numel() == 0) return sums.sum().to(x.prediction.scalar_type());
    const at::Tensor cosine = sums.select(1, 0) / (NormAboveEps(sums.select(1, 1)) * NormAboveEps(sums.select(1, 2)));
    return ((1 - cosine).sum() / divisor).to(x.prediction.scalar_type());
  });
}

}  // namespace adjoin
