// One movement of a plan: made, counted, and left out where it does nothing.
//
//   ADJOIN_ASSIGN_OR_RETURN(OperatorPlan op,
//                           MakeOperator("conv1.x", x, y, windows, /*fill=*/0, /*differentiable=*/true, /*ranks=*/4));
//   ADJOIN_ASSIGN_OR_RETURN(bool idle, IsIdentity(op));
#ifndef ADJOIN_LAYERS_PLAN_OPERATOR_PLAN_H_
#define ADJOIN_LAYERS_PLAN_OPERATOR_PLAN_H_

#include <cstdint>
#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "primitives/geometry/interpolation.h"
#include "primitives/geometry/layout.h"
#include "primitives/geometry/window.h"
#include "proto/plan.pb.h"

namespace adjoin {

// Without an id. `ranks`: of the job; bytes are counted for each, as the transport will.
// Errors: as DistributionsOf and MovementPlan::Build.
absl::StatusOr<OperatorPlan> MakeOperator(const std::string& name, const Layout& from, const Layout& to,
                                          const std::map<int, Window>& windows, double fill, bool differentiable,
                                          uint32_t ranks, const std::map<int, Interpolation>& interpolations = {});

// Whether every rank's tensor is the same before and after, so that neither the operator nor its adjoint is needed.
// Broadcast to partial is no identity, though nothing is sent: all copies but one become zeros.
absl::StatusOr<bool> IsIdentity(const OperatorPlan& op);

}  // namespace adjoin

#endif  // ADJOIN_LAYERS_PLAN_OPERATOR_PLAN_H_
