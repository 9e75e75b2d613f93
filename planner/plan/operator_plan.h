// One movement of a plan: made, counted, and left out where it does nothing.
//
//   const OperatorRequest request = {.name = "conv1.x", .from = x, .to = y, .readings = windows};
//   ADJOIN_ASSIGN_OR_RETURN(OperatorPlan op, MakeOperator(request, /*ranks=*/4));
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

// A redistribution; with `readings` a halo exchange. Fields as in OperatorPlan.
struct OperatorRequest {
  std::string name;
  Layout from;
  Layout to;  // with readings: the layout of the outputs that read
  std::map<int, Reading> readings = {};
  double fill = 0;
  bool differentiable = false;
  // With readings: on the mesh of `to`, how the input's dims without a reading are cut; absent: as `from`.
  std::optional<Layout> read = std::nullopt;
  // By dim, the cells of each rank's part of `from` that are used; none: all of them.
  std::map<int, Reading> source = {};
};

// Returns the plan's message, without an id. `ranks`: how many the job has; the bytes of each are counted, as the
// transport will send them. Errors: as DistributionsOf and MovementPlan::Build.
absl::StatusOr<OperatorPlan> MakeOperator(const OperatorRequest& request, uint32_t ranks);

// Returns true where every rank's tensor is the same before and after, so that neither the operator nor its adjoint is
// needed. Broadcast to partial is no identity, though nothing is sent: all copies but one become zeros.
absl::StatusOr<bool> IsIdentity(const OperatorPlan& op);

}  // namespace adjoin

#endif  // ADJOIN_PLANNER_PLAN_OPERATOR_PLAN_H_
