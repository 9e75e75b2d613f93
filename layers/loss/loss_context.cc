#include "layers/loss/loss_context.h"

#include <ATen/TensorOperators.h>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "primitives/status_exception.h"

namespace adjoin {

at::Tensor MoveForLoss(const LossContext& context, const std::string& role, const at::Tensor& x, Tape& tape) {
  const std::shared_ptr<Movement>& movement = context.roles->Use(role);
  return movement == nullptr ? x : movement->Apply(x, tape);
}

double MeanDivisor(const LossContext& context) {
  if (context.spec.reduction() == "sum") return 1;
  if (context.spec.reduction() == "batchmean") return static_cast<double>(context.shape.at(0));
  double count = 1;
  for (int64_t extent : context.shape) count *= static_cast<double>(extent);
  return count;
}

void CheckClasses(const LossContext& context, const at::Tensor& target) {
  const int64_t classes = context.shape.at(1);
  at::Tensor wrong = (target < 0).logical_or(target >= classes);
  if (context.spec.has_ignore_index()) wrong = wrong.logical_and(target != context.spec.ignore_index());
  if (!wrong.any().item<bool>()) return;
  throw StatusException(absl::InvalidArgumentError(absl::StrCat(
      context.name, ": the target \"", context.spec.target(), "\" holds ",
      target.masked_select(wrong)[0].item<int64_t>(), ", but the prediction has ", classes, " classes, 0 to ",
      classes - 1,
      context.spec.has_ignore_index() ? absl::StrCat(", and ignore_index is ", context.spec.ignore_index()) : "")));
}

}  // namespace adjoin
