#include "layers/network/parameter_collect.h"

#include <utility>

#include <ATen/core/grad_mode.h>

#include "base/status_macros.h"
#include "layers/network/operators.h"
#include "primitives/status_exception.h"

namespace adjoin {

absl::StatusOr<std::unique_ptr<ParameterCollect>> ParameterCollect::Create(const Plan& plan,
                                                                           Communicator* communicator) {
  std::unique_ptr<ParameterCollect> collect(new ParameterCollect());
  for (const ParameterPlan& parameter : plan.parameter()) {
    ADJOIN_ASSIGN_OR_RETURN(std::shared_ptr<Movement> movement, CreateMovement(parameter.collect(), communicator));
    collect->movements_.push_back(std::move(movement));
  }
  return collect;
}

absl::StatusOr<at::Tensor> ParameterCollect::Collect(int index, const at::Tensor& local) {
  at::NoGradGuard no_grad;
  try {
    return movements_[index]->Forward(local.detach());
  } catch (...) {
    return StatusFromCurrentException();
  }
}

}  // namespace adjoin
