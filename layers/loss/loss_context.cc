#include "layers/loss/loss_context.h"

#include <ATen/TensorOperators.h>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

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

at::Tensor CheckedClasses(const LossContext& context, const at::Tensor& target) {
  const int64_t classes = context.shape.at(1);
  at::Tensor wrong = (target < 0).logical_or(target >= classes);
  if (context.spec.has_ignore_index()) wrong = wrong.logical_and(target != context.spec.ignore_index());
  const auto error = [name = context.name, spec = context.spec, classes, target, wrong] {
    return absl::InvalidArgumentError(absl::StrCat(
        name, ": the target \"", spec.target(), "\" holds ", target.masked_select(wrong)[0].item<int64_t>(),
        ", but the prediction has ", classes, " classes, 0 to ", classes - 1,
        spec.has_ignore_index() ? absl::StrCat(", and ignore_index is ", spec.ignore_index()) : ""));
  };
  context.checks->Refuse(wrong.any(), error);
  return target.is_cpu() ? target : target.masked_fill(wrong, 0);
}

}  // namespace adjoin
