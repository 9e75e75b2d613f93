// What a loss is built from: its part of the plan and this rank's objects for it.
//
//   absl::StatusOr<LossFunction> BuildMse(LossContext context) {
//     return LossFunction([divisor = MeanDivisor(context)](const LossTensors& x, Tape&) {
//       return (x.prediction - x.target).square().sum() / divisor;
//     });
//   }
//
// A loss is a scalar in P: the ranks' shares add up to it. Like a layer it holds no communication code: what it needs
// of the other ranks are the plan's movements, by role (layers/loss/loss_roles.h).
#ifndef ADJOIN_LAYERS_LOSS_LOSS_CONTEXT_H_
#define ADJOIN_LAYERS_LOSS_LOSS_CONTEXT_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "layers/role_movements.h"
#include "layers/step_checks.h"
#include "primitives/geometry/box.h"
#include "primitives/tape.h"
#include "proto/job.pb.h"

namespace adjoin {

struct LossContext {
  Loss spec;                             // defaults filled in
  std::string name;                      // for messages: "loss 0, cross_entropy of \"fc3\""
  std::vector<int64_t> shape;            // the prediction's, global
  Box box;                               // this rank's elements of it; each is on one rank
  bool takes_part = false;               // else the rank's tensors have the shape (0, ..., 0)
  at::Device device = at::kCPU;          // of predictions and targets
  std::shared_ptr<RoleMovements> roles;  // never null
  std::shared_ptr<StepChecks> checks = std::make_shared<StepChecks>();  // likewise
};

// This rank's elements of the prediction, and what lies beside them.
struct LossTensors {
  at::Tensor prediction;
  at::Tensor target;
  at::Tensor variance = {};  // of Loss.variance, else undefined: as the prediction, or of extent 1 in the last dim
};

// This rank's share of the loss, without Loss.weight: a scalar of the prediction's type that hangs on the prediction
// (and the variance) in the graph, also where the rank has no elements.
// Collective. Throws StatusException (a target out of range, what a movement fails with) and c10::Error.
using LossFunction = std::function<at::Tensor(const LossTensors& x, Tape& tape)>;

// Moves `x` by the role's movement. Throws StatusException, kInternal, for a role that the loss's rule does not name.
at::Tensor MoveForLoss(const LossContext& context, const std::string& role, const at::Tensor& x, Tape& tape);

// What the sum over all elements of the prediction is divided by: their number for "mean", the batch for "batchmean", 1
// for "sum".
double MeanDivisor(const LossContext& context);

// Returns `target`. Refuses (StepChecks), kInvalidArgument, a target that is neither a class of the prediction nor the
// loss's ignore_index: where the error comes later, it is class 0 until then.
at::Tensor CheckedClasses(const LossContext& context, const at::Tensor& target);

}  // namespace adjoin

#endif  // ADJOIN_LAYERS_LOSS_LOSS_CONTEXT_H_
