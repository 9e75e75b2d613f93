// The norm of all gradients together, over all ranks, and its limit (torch.nn.utils.clip_grad_norm_).
//
//   ADJOIN_ASSIGN_OR_RETURN(const GradientNorm gradients, GradientNorm::Create(parameters));
//   const double norm = std::sqrt(SumOverRanks(gradients.SquaresHere().item<double>()));     // after GradientSync
//   gradients.Clip(norm, 1.0);
//
// One thread.
#ifndef ADJOIN_WORKER_TRAINING_GRADIENT_NORM_H_
#define ADJOIN_WORKER_TRAINING_GRADIENT_NORM_H_

#include <vector>

#include <ATen/core/Tensor.h>

#include "absl/status/statusor.h"
#include "layers/network/parameters.h"

namespace adjoin {

class GradientNorm {
 public:
  // `parameters` must outlive it. Errors: as FirstCopy (layers/rules/counted_layout.h).
  static absl::StatusOr<GradientNorm> Create(const Parameters& parameters);

  // Returns the sum of the squares, one float64 on the gradients' device, of their elements that count on this rank.
  // Only the first copy of an element counts, so over all ranks each element of a trained parameter counts once. The
  // gradients must be defined.
  at::Tensor SquaresHere() const;

  // Multiplies all gradients by max_norm / (norm + 1e-6) where that is below 1. On every rank, with the same numbers.
  void Clip(double norm, double max_norm) const;
  // Multiplies all gradients. On every rank, by the same number.
  void Multiply(double factor) const;

 private:
  explicit GradientNorm(const Parameters& parameters) : parameters_(&parameters) {}
  const Parameters* parameters_;
  std::vector<bool> counts_;  // by parameter
};

}  // namespace adjoin

#endif  // ADJOIN_WORKER_TRAINING_GRADIENT_NORM_H_
