#include "worker/training/gradient_norm.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/norm.h>
#include <ATen/ops/zeros.h>

#include "base/status_macros.h"
#include "layers/rules/counted_layout.h"

namespace adjoin {

absl::StatusOr<GradientNorm> GradientNorm::Create(const Parameters& parameters) {
  GradientNorm gradients(parameters);
  for (int i = 0; i < parameters.size(); ++i) {
    ADJOIN_ASSIGN_OR_RETURN(const Layout once, FirstCopy(parameters.home(i)));
    gradients.counts_.push_back(!parameters.frozen(i) && once.mesh().Has(parameters.rank()));
  }
  return gradients;
}

at::Tensor GradientNorm::SquaresHere() const {
  at::NoGradGuard no_grad;
  at::Tensor squares = at::zeros({}, parameters_->tensor(0).options().dtype(at::kDouble));
  for (int i = 0; i < parameters_->size(); ++i) {
    if (!counts_[i]) continue;
    squares.add_(at::norm(parameters_->tensor(i).grad(), 2, at::kDouble).square());
  }
  return squares;
}

void GradientNorm::Clip(double norm, double max_norm) const {
  const double factor = max_norm / (norm + 1e-6);
  if (factor < 1) Multiply(factor);
}

void GradientNorm::Multiply(double factor) const {
  at::NoGradGuard no_grad;
  for (int i = 0; i < parameters_->size(); ++i) {
    if (!parameters_->frozen(i)) at::Tensor(parameters_->tensor(i).grad()).mul_(factor);
  }
}

}  // namespace adjoin
