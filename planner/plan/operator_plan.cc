#include "planner/plan/operator_plan.h"

#include <numeric>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "layers/rules/layout_proto.h"
#include "primitives/geometry/box.h"
#include "primitives/geometry/distribution.h"
#include "primitives/geometry/dtype.h"
#include "primitives/geometry/movement_plan.h"

namespace adjoin {
namespace {

// True where this rank keeps all cells that it has, and nothing reaches or leaves it.
bool KeepsEverything(const MovementPlan& plan, const Distribution& from, const Distribution& to) {
  const LocalView& before = from.View(plan.rank());
  const LocalView& after = to.View(plan.rank());
  if (!plan.groups().empty() || before.shape != after.shape) return false;
  const int64_t cells = VolumeOf(before.shape);
  const std::vector<Transfer>& sends = plan.direct().sends();
  const std::vector<Transfer>& recvs = plan.direct().recvs();
  if (cells == 0) return sends.empty() && recvs.empty();
  return sends.size() == 1 && recvs.size() == 1 && sends[0].peer == plan.rank() && recvs[0].peer == plan.rank() &&
         sends[0].elements == cells && sends[0].regions == recvs[0].regions;
}

// The bytes that each rank sends, and the movement's algorithm.
struct Traffic {
  std::vector<int64_t> forward;
  std::vector<int64_t> adjoint;
  std::string collective;  // as MovementPlan::DescribeGroups
};

int64_t BytesSentAt(const CollectiveGroup& group, size_t position, DType dtype) {
  int64_t elements = 0;
  for (const CollectiveStep& step : StepsOf(group, static_cast<int>(position), dtype)) elements += step.send.size();
  return elements * SizeOf(dtype);
}

// True where every rank of one mesh has exactly the cells that the rank at the same position of the other mesh is to
// have: both layouts cut the tensor alike, without copies.
bool PermutesParts(const Layout& from, const Layout& to) {
  if (from.mesh().shape() != to.mesh().shape() || from.placements() != to.placements() || from.shape() != to.shape()) {
    return false;
  }
  for (const Placement& placement : from.placements()) {
    if (placement.kind != Placement::Kind::kSplit) return false;
  }
  for (int dim = 0; dim < from.dims(); ++dim) {
    if (from.Boundaries(dim) != to.Boundaries(dim)) return false;
  }
  return true;
}

// Returns the traffic of a movement with PermutesParts without looking at every pair of ranks: a ring has as many such
// movements as ranks.
Traffic TrafficOfParts(const Layout& from, const Layout& to, uint32_t ranks) {
  Traffic traffic{std::vector<int64_t>(ranks), std::vector<int64_t>(ranks), ""};
  for (int64_t position = 0; position < from.mesh().size(); ++position) {
    const int sender = from.mesh().ranks()[position], receiver = to.mesh().ranks()[position];
    if (sender == receiver) continue;
    const int64_t bytes = from.BoxOf(sender).Volume() * SizeOf(from.dtype());
    traffic.forward[sender] = bytes;
    traffic.adjoint[receiver] = bytes;
  }
  return traffic;
}

absl::StatusOr<Traffic> TrafficOf(const OperatorEnds& ends, uint32_t ranks) {
  Traffic traffic{std::vector<int64_t>(ranks), std::vector<int64_t>(ranks), ""};
  std::vector<bool> done(ranks, false);
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    if (done[rank]) continue;
    ADJOIN_ASSIGN_OR_RETURN(const MovementPlan plan, MovementPlan::Build(ends.from, ends.to, static_cast<int>(rank)));
    traffic.forward[rank] = plan.BytesSent();
    traffic.adjoint[rank] = plan.Reversed().BytesSent();
    if (traffic.collective.empty()) traffic.collective = plan.DescribeGroups();
    if (plan.groups().empty() || plan.groups()[0].kind != CollectiveGroup::Kind::kAllSumReduce) continue;
    // An all-sum-reduce is its own adjoint, and its members do nothing else. Plans of the other members would only say
    // the same.
    const CollectiveGroup& group = plan.groups()[0];
    for (size_t position = 0; position < group.ranks.size(); ++position) {
      const int member = group.ranks[position];
      traffic.forward[member] = traffic.adjoint[member] = BytesSentAt(group, position, plan.dtype());
      done[member] = true;
    }
  }
  return traffic;
}

}  // namespace

absl::StatusOr<OperatorPlan> MakeOperator(const OperatorRequest& request, uint32_t ranks) {
  OperatorPlan op;
  op.set_name(request.name);
  *op.mutable_from() = ToProto(request.from);
  *op.mutable_to() = ToProto(request.to);
  for (const auto& entry : request.readings) *op.add_reading() = ToProto(entry.first, entry.second);
  if (request.read.has_value() && *request.read != request.from) *op.mutable_read() = ToProto(*request.read);
  for (const auto& entry : request.source) *op.add_source() = ToProto(entry.first, entry.second);
  op.set_fill(request.fill);
  op.set_differentiable(request.differentiable);
  Traffic traffic;
  if (request.readings.empty() && request.source.empty() && PermutesParts(request.from, request.to)) {
    traffic = TrafficOfParts(request.from, request.to, ranks);
  } else {
    ADJOIN_ASSIGN_OR_RETURN(const OperatorEnds ends, DistributionsOf(op));
    ADJOIN_ASSIGN_OR_RETURN(traffic, TrafficOf(ends, ranks));
  }
  op.mutable_bytes_forward()->Add(traffic.forward.begin(), traffic.forward.end());
  if (request.differentiable) op.mutable_bytes_adjoint()->Add(traffic.adjoint.begin(), traffic.adjoint.end());
  const int64_t total = std::accumulate(traffic.forward.begin(), traffic.forward.end(), int64_t{0});
  if (!traffic.collective.empty()) {
    op.set_algorithm(traffic.collective);
  } else if (total == 0) {
    op.set_algorithm("local");
  } else {
    op.set_algorithm(request.readings.empty() ? "box exchange" : "halo exchange");
  }
  return op;
}

absl::StatusOr<bool> IsIdentity(const OperatorPlan& op) {
  for (int rank = 0; rank < op.bytes_forward_size(); ++rank) {
    if (op.bytes_forward(rank) > 0) return false;
  }
  if (op.reading().empty() && op.source().empty()) {
    ADJOIN_ASSIGN_OR_RETURN(const Layout from, LayoutFromProto(op.from()));
    ADJOIN_ASSIGN_OR_RETURN(const Layout to, LayoutFromProto(op.to()));
    if (PermutesParts(from, to)) {
      for (int rank = 0; rank < op.bytes_forward_size(); ++rank) {
        if (from.LocalShape(rank) != to.LocalShape(rank)) return false;
      }
      return true;
    }
  }
  ADJOIN_ASSIGN_OR_RETURN(const OperatorEnds ends, DistributionsOf(op));
  for (int rank = 0; rank < op.bytes_forward_size(); ++rank) {
    ADJOIN_ASSIGN_OR_RETURN(const MovementPlan plan, MovementPlan::Build(ends.from, ends.to, rank));
    if (!KeepsEverything(plan, ends.from, ends.to)) return false;
  }
  return true;
}

}  // namespace adjoin
