#include "planner/plan/operator_plan.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/status_macros.h"
#include "layers/rules/layout_proto.h"
#include "primitives/geometry/traffic.h"

namespace adjoin {

absl::StatusOr<CountedOperator> CountOperator(const OperatorRequest& request, uint32_t ranks) {
  CountedOperator counted;
  OperatorPlan& op = counted.plan;
  op.set_name(request.name);
  *op.mutable_from() = ToProto(request.from);
  *op.mutable_to() = ToProto(request.to);
  for (const auto& entry : request.readings) *op.add_reading() = ToProto(entry.first, entry.second);
  if (request.read.has_value() && *request.read != request.from) *op.mutable_read() = ToProto(*request.read);
  for (const auto& entry : request.source) *op.add_source() = ToProto(entry.first, entry.second);
  op.set_fill(request.fill);
  op.set_differentiable(request.differentiable);
  const MovementEnds ends{.from = request.from,
                          .to = request.to,
                          .readings = request.readings,
                          .read = request.read,
                          .source = request.source};
  ADJOIN_ASSIGN_OR_RETURN(counted.traffic, TwoWayTrafficOf(ends));
  const TwoWayTraffic& traffic = counted.traffic;
  op.set_bytes_forward_sum(traffic.forward.total_bytes);
  if (request.differentiable) op.set_bytes_adjoint_sum(traffic.adjoint.total_bytes);
  if (ranks <= kMostListedRanks) {
    op.mutable_bytes_forward()->Resize(static_cast<int>(ranks), 0);
    AddBytes(traffic.forward, 1, *op.mutable_bytes_forward());
    if (request.differentiable) {
      op.mutable_bytes_adjoint()->Resize(static_cast<int>(ranks), 0);
      AddBytes(traffic.adjoint, 1, *op.mutable_bytes_adjoint());
    }
  }
  if (!traffic.forward.algorithm.empty()) {
    op.set_algorithm(traffic.forward.algorithm);
  } else if (traffic.forward.total_bytes == 0) {
    op.set_algorithm("local");
  } else {
    op.set_algorithm(request.readings.empty() ? "box exchange" : "halo exchange");
  }
  return counted;
}

absl::StatusOr<OperatorPlan> MakeOperator(const OperatorRequest& request, uint32_t ranks) {
  ADJOIN_ASSIGN_OR_RETURN(CountedOperator counted, CountOperator(request, ranks));
  return std::move(counted.plan);
}

void AddBytes(const Traffic& traffic, int sign, google::protobuf::RepeatedField<int64_t>& bytes) {
  const int ranks = std::min(bytes.size(), static_cast<int>(traffic.rank.size()));
  for (int rank = 0; rank < ranks; ++rank) {
    const int64_t sent = traffic.rank[rank].bytes_sent, so_far = bytes.Get(rank);
    constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
    bytes.Set(rank, sign < 0 ? so_far - sent : sent > kMost - so_far ? kMost : so_far + sent);
  }
}

absl::StatusOr<TwoWayTraffic> TrafficOf(const OperatorPlan& op) {
  ADJOIN_ASSIGN_OR_RETURN(const MovementEnds ends, MovementEndsOf(op));
  return TwoWayTrafficOf(ends);
}

absl::StatusOr<bool> IsIdentity(const OperatorPlan& op) {
  ADJOIN_ASSIGN_OR_RETURN(const TwoWayTraffic traffic, TrafficOf(op));
  return traffic.is_identity;
}

}  // namespace adjoin
