// One movement of a plan: made, counted, and left out where it does nothing.
//
//   const OperatorRequest request = {.name = "conv1.x", .from = x, .to = y, .readings = windows};
//   ADJOIN_ASSIGN_OR_RETURN(CountedOperator op, CountOperator(request, /*ranks=*/4));
//   if (!op.traffic.is_identity) *program.add_op() = std::move(op.plan);
#ifndef ADJOIN_PLANNER_PLAN_OPERATOR_PLAN_H_
#define ADJOIN_PLANNER_PLAN_OPERATOR_PLAN_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include <google/protobuf/repeated_field.h>

#include "absl/status/statusor.h"
#include "primitives/geometry/layout.h"
#include "primitives/geometry/reading.h"
#include "primitives/geometry/traffic.h"
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

// Jobs of more ranks have no bytes by rank in their movements (OperatorPlan.bytes_forward_sum).
inline constexpr uint32_t kMostListedRanks = 1024;

// A movement and what each rank sends for it, as the transport will count it; ranks that follow send nothing.
struct CountedOperator {
  OperatorPlan plan;  // without an id
  TwoWayTraffic traffic;
};

// Returns the plan's message and what it counts. `ranks`: how many the job has. Errors: as TrafficOf.
absl::StatusOr<CountedOperator> CountOperator(const OperatorRequest& request, uint32_t ranks);
// Returns the message alone.
absl::StatusOr<OperatorPlan> MakeOperator(const OperatorRequest& request, uint32_t ranks);
// Adds what each rank sends in one execution, from `sign` of 1 on; takes it away with -1. Saturates.
void AddBytes(const Traffic& traffic, int sign, google::protobuf::RepeatedField<int64_t>& bytes);

// Returns the traffic of a plan's movement. Errors: as LayoutFromProto and TrafficOf.
absl::StatusOr<TwoWayTraffic> TrafficOf(const OperatorPlan& op);

// Returns true where every rank's tensor is the same before and after, so that neither the operator nor its adjoint is
// needed. Broadcast to partial is no identity, though nothing is sent: all copies but one become zeros.
absl::StatusOr<bool> IsIdentity(const OperatorPlan& op);

}  // namespace adjoin

#endif  // ADJOIN_PLANNER_PLAN_OPERATOR_PLAN_H_
