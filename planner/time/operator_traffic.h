// What a movement of a plan makes some ranks do.
#ifndef ADJOIN_PLANNER_TIME_OPERATOR_TRAFFIC_H_
#define ADJOIN_PLANNER_TIME_OPERATOR_TRAFFIC_H_

#include <vector>

#include "absl/status/statusor.h"
#include "primitives/geometry/traffic.h"
#include "proto/plan.pb.h"

namespace adjoin {

struct OperatorTraffic {
  std::vector<RankTraffic> forward, adjoint;  // in the order of the ranks that were asked for

  // Errors: as LayoutFromProto, ReadingFromProto and TrafficOf.
  static absl::StatusOr<OperatorTraffic> Of(const OperatorPlan& op, const std::vector<int>& ranks);
};

}  // namespace adjoin

#endif  // ADJOIN_PLANNER_TIME_OPERATOR_TRAFFIC_H_
