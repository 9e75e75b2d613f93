#include "layers/network/gradient_sync.h"

#include <utility>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros_like.h>

#include "base/status_macros.h"
#include "layers/network/operators.h"
#include "primitives/status_exception.h"

namespace adjoin {

absl::StatusOr<std::unique_ptr<GradientSync>> GradientSync::Create(const Plan& plan, Communicator* communicator,
                                                                   Parameters* parameters) {
  std::unique_ptr<GradientSync> sync(new GradientSync(parameters));
  for (const ParameterPlan& parameter : plan.parameter()) {
    std::shared_ptr<Movement> movement;
    if (parameter.has_sync() && !parameter.frozen()) {
      ADJOIN_ASSIGN_OR_RETURN(movement, CreateMovement(parameter.sync(), communicator));
    }
    sync->movements_.push_back(std::move(movement));
  }
  return sync;
}

absl::Status GradientSync::Sync() {
  at::NoGradGuard no_grad;
  try {
    for (int i = 0; i < parameters_->size(); ++i) {
      if (parameters_->frozen(i)) continue;
      at::Tensor parameter = parameters_->tensor(i);
      at::Tensor& grad = parameter.mutable_grad();
      if (!grad.defined()) grad = at::zeros_like(parameter);
      if (movements_[i] != nullptr) grad = movements_[i]->Forward(grad.detach());
    }
  } catch (...) {
    return StatusFromCurrentException();
  }
  return absl::OkStatus();
}

}  // namespace adjoin
