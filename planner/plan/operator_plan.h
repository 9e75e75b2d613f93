// One movement of a plan: made, counted, and left out where it does nothing.
//
//   ADJOIN_ASSIGN_OR_RETURN(OperatorPlan op,
//                           MakeOperator({"conv1.x", x, y, windows, /*fill=*/0, /*differentiable=*/true}, /*ranks=*/4));
//   ADJOIN_ASSIGN_OR_RETURN(bool idle, IsIdentity(op));
#ifndef ADJOIN_PLANNER_PLAN_OPERATOR_PLAN_H_
#define ADJOIN_PLANNER_PLAN_OPERATOR_PLAN_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "primitives/geometry/layout.h"
#include "primitives/geometry/reading.h"
#include "proto/plan.pb.h"

namespace adjoin {

// A redistribution; with `readings` a halo exchange.
struct OperatorRequest {
  std::string name;
  Layout from;
  Layout to;  // with readings: of the outputs that read
  std::map<int, Reading> readings = {};
  double fill = 0;
  bool differentiable = false;
  // With readings: on the mesh of `to`, the cut of the input in the dims that have none; absent: as `from`.
  std::optional<Layout> read = std::nullopt;
  // The cells of `from` that it starts from, by what each rank's part reads of it; none: all of them.
  std::map<int, Reading> source = {};
};

// Without an id. `ranks`: of the job; bytes are counted for each, as the transport will.
// Errors: as DistributionsOf and MovementPlan::Build.
absl::StatusOr<OperatorPlan> MakeOperator(const OperatorRequest& request, uint32_t ranks);

// Whether every rank's tensor is the same before and after, so that neither the operator nor its adjoint is needed.
// Broadcast to partial is no identity, though nothing is sent: all copies but one become zeros.
absl::StatusOr<bool> IsIdentity(const OperatorPlan& op);

}  // namespace adjoin

#endif  // ADJOIN_PLANNER_PLAN_OPERATOR_PLAN_H_
