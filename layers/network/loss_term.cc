#include "layers/network/loss_term.h"

#include <string>
#include <utility>

#include <ATen/TensorOperators.h>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "layers/loss/loss_builder.h"
#include "layers/loss/loss_roles.h"
#include "layers/rules/layout_proto.h"
#include "layers/sum_type.h"
#include "primitives/geometry/layout.h"
#include "primitives/status_exception.h"

namespace adjoin {
namespace {

// Moves to where the loss is computed, in its type: LossType (layers/loss/loss_rule.h).
at::Tensor Moved(RoleMovements& roles, const char* role, const at::Tensor& x, Tape& tape) {
  const std::shared_ptr<Movement>& movement = roles.Use(role);
  return InSumType(movement == nullptr ? x : movement->Apply(x, tape));
}

}  // namespace

absl::StatusOr<LossTerm> LossTerm::Create(const ProgramPlan& program, int index, const Owner& owner) {
  LossTerm term;
  term.plan_ = program.loss(index);
  const Loss& spec = term.plan_.spec();
  LossContext context;
  context.spec = spec;
  context.name = absl::StrCat("loss ", index, ", ", spec.kind(), " of \"", spec.input(), "\"");
  context.roles = term.roles_ = std::make_shared<RoleMovements>(context.name);
  for (const std::string& role : term.plan_.role()) context.roles->Add(role);
  LayoutPlan compared = program.value(term.plan_.input()).layout();
  for (const OperatorUse& use : term.plan_.op()) {
    if (use.index() >= owner.movements.size()) {
      return absl::InvalidArgumentError(absl::StrCat(context.name, ": role \"", use.role(), "\" names operator ",
                                                     use.index(), " of ", owner.movements.size()));
    }
    if (use.role() == kRolePrediction) compared = program.op(use.index()).to();
    context.roles->Add(use.role(), owner.movements[use.index()]);
  }
  ADJOIN_ASSIGN_OR_RETURN(const Layout layout, LayoutFromProto(compared));
  const LayoutPlan& target = program.value(term.plan_.target()).layout();
  term.one_per_sample_ = target.dtype() != "int64" && target.shape_size() + 1 == layout.dims();
  context.shape = layout.shape();
  context.box = layout.BoxOf(owner.rank);
  context.takes_part = layout.mesh().Has(owner.rank);
  context.device = owner.device;
  context.checks = owner.checks;
  ADJOIN_ASSIGN_OR_RETURN(term.share_, BuildLoss(std::move(context)));
  return term;
}

LossTerm::Result LossTerm::Run(const std::vector<at::Tensor>& values, Tape& tape) const {
  LossTensors x;
  x.prediction = Moved(*roles_, kRolePrediction, values.at(plan_.input()), tape);
  x.target = values.at(plan_.target());
  // One number for each sample, of a prediction [n, 1]: as that, or LibTorch would make [n, n] of both.
  if (one_per_sample_) x.target = x.target.reshape(x.prediction.sizes());
  if (plan_.has_variance()) x.variance = Moved(*roles_, kRoleVariance, values.at(plan_.variance()), tape);
  at::Tensor share = share_(x, tape) * plan_.spec().weight();
  ThrowIfError(roles_->CheckUsed());
  return {std::move(x.prediction), std::move(share)};
}

}  // namespace adjoin
