#include "layers/loss/dice_loss.h"

#include <utility>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/stack.h>

#include "layers/loss/loss_roles.h"

namespace adjoin {
namespace {

// [n, local classes, ...] of the prediction's type.
at::Tensor TargetPerClass(const LossContext& context, const at::Tensor& prediction, const at::Tensor& given) {
  if (given.scalar_type() != at::kLong) return given;
  const at::Tensor target = CheckedClasses(context, given);
  std::vector<int64_t> shape(prediction.dim(), 1);
  shape[1] = prediction.size(1);
  const at::Tensor classes =
      at::arange(context.box[1].lo, context.box[1].lo + shape[1], target.options()).reshape(shape);
  return target.unsqueeze(1).eq(classes).to(prediction.scalar_type());
}

// [3, local classes] of this rank: products, predictions, targets. On a rank that takes no part [0, 0].
at::Tensor OwnSums(const LossContext& context, const at::Tensor& prediction, const at::Tensor& target) {
  if (!context.takes_part) return prediction.reshape({0, 0}).to(at::kDouble);
  const at::Tensor wanted = TargetPerClass(context, prediction, target);
  std::vector<int64_t> dims = {0};
  for (int64_t dim = 2; dim < prediction.dim(); ++dim) dims.push_back(dim);
  const auto sum = [&dims](const at::Tensor& x) { return x.sum(dims, /*keepdim=*/false, at::kDouble); };
  return at::stack({sum(prediction * wanted), sum(prediction), sum(wanted)});
}

}  // namespace

absl::StatusOr<LossFunction> BuildDice(LossContext context) {
  return LossFunction([context = std::move(context)](const LossTensors& x, Tape& tape) {
    const double smooth = context.spec.smooth();
    const at::Tensor sums = MoveForLoss(context, kRoleSums, OwnSums(context, x.prediction, x.target), tape);
    const at::Tensor loss =
        context.takes_part
            ? 1 - ((2 * sums[0] + smooth) / (sums[1] + sums[2] + smooth)).mean(/*dim=*/0, /*keepdim=*/true)
            : sums.reshape({0});
    return MoveForLoss(context, kRoleShare, loss, tape).sum().to(x.prediction.scalar_type());
  });
}

}  // namespace adjoin
