#include "layers/loss/dice_loss.h"

#include <utility>
#include <vector>

namespace adjoin {
namespace {

// [n, local classes, ...] of the prediction's type.
torch::Tensor TargetPerClass(const LossContext& context, const torch::Tensor& prediction, const torch::Tensor& target) {
  if (target.scalar_type() != torch::kInt64) return target;
  CheckClasses(context, target);
  std::vector<int64_t> shape(prediction.dim(), 1);
  shape[1] = prediction.size(1);
  const torch::Tensor classes =
      torch::arange(context.box[1].lo, context.box[1].lo + shape[1], torch::kInt64).reshape(shape);
  return target.unsqueeze(1).eq(classes).to(prediction.scalar_type());
}

// [3, local classes] of this rank: products, predictions, targets. On a rank that takes no part [0, 0].
torch::Tensor OwnSums(const LossContext& context, const torch::Tensor& prediction, const torch::Tensor& target) {
  if (!context.takes_part) return prediction.reshape({0, 0}).to(torch::kFloat64);
  const torch::Tensor wanted = TargetPerClass(context, prediction, target);
  std::vector<int64_t> dims = {0};
  for (int64_t dim = 2; dim < prediction.dim(); ++dim) dims.push_back(dim);
  const auto sum = [&dims](const torch::Tensor& x) { return x.sum(dims, /*keepdim=*/false, torch::kFloat64); };
  return torch::stack({sum(prediction * wanted), sum(prediction), sum(wanted)});
}

}  // namespace

absl::StatusOr<LossFunction> BuildDice(LossContext context) {
  return LossFunction([context = std::move(context)](const torch::Tensor& prediction, const torch::Tensor& target,
                                                     Tape& tape) {
    const double smooth = context.spec.smooth();
    const torch::Tensor sums = MoveForLoss(context, "sums", OwnSums(context, prediction, target), tape);
    const torch::Tensor loss =
        context.takes_part
            ? 1 - ((2 * sums[0] + smooth) / (sums[1] + sums[2] + smooth)).mean(/*dim=*/0, /*keepdim=*/true)
            : sums.reshape({0});
    return MoveForLoss(context, "share", loss, tape).sum().to(prediction.scalar_type());
  });
}

}  // namespace adjoin
