// One term of a program's loss on one rank, built from the plan.
//
//   ADJOIN_ASSIGN_OR_RETURN(LossTerm term, LossTerm::Create(program, /*index=*/0, place));
//   const LossTerm::Result result = term.Run(values, tape);     // on every rank; the shares add up to the term
//
// One thread.
#ifndef ADJOIN_LAYERS_NETWORK_LOSS_TERM_H_
#define ADJOIN_LAYERS_NETWORK_LOSS_TERM_H_

#include <memory>
#include <vector>

#include <ATen/core/Tensor.h>

#include "absl/status/statusor.h"
#include "layers/loss/loss_context.h"
#include "layers/role_movements.h"
#include "layers/step_checks.h"
#include "primitives/movement.h"
#include "primitives/tape.h"
#include "proto/plan.pb.h"

namespace adjoin {

class LossTerm {
 public:
  // The network that a term is part of.
  struct Owner {
    int rank = 0;
    at::Device device = at::kCPU;
    const std::vector<std::shared_ptr<Movement>>& movements;  // by index in ProgramPlan.op
    std::shared_ptr<StepChecks> checks;
  };
  // Errors: kInvalidArgument for a plan that names no movement of the program; as BuildLoss.
  static absl::StatusOr<LossTerm> Create(const ProgramPlan& program, int index, const Owner& owner);

  const LossPlan& plan() const { return plan_; }

  struct Result {
    at::Tensor prediction;  // where it is compared, in the type of the loss
    at::Tensor share;       // times Loss.weight
  };
  // `values`: by index in ProgramPlan.value. Collective. Throws as LossFunction; StatusException, kInternal, where rule
  // and loss disagree on what is moved.
  Result Run(const std::vector<at::Tensor>& values, Tape& tape) const;

 private:
  LossTerm() = default;

  LossPlan plan_;
  LossFunction share_;
  std::shared_ptr<RoleMovements> roles_;
  bool one_per_sample_ = false;  // targets [n] of a prediction [n, 1]
};

}  // namespace adjoin

#endif  // ADJOIN_LAYERS_NETWORK_LOSS_TERM_H_
