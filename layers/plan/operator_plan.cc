#include "layers/plan/operator_plan.h"

#include <utility>

#include "base/status_macros.h"
#include "layers/plan/layout_proto.h"
#include "primitives/geometry/box.h"
#include "primitives/geometry/distribution.h"
#include "primitives/geometry/movement_plan.h"

namespace adjoin {
namespace {

// What this rank keeps is all it has and all it gets, and nothing else reaches or leaves it.
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

}  // namespace

absl::StatusOr<OperatorPlan> MakeOperator(const std::string& name, const Layout& from, const Layout& to,
                                          const std::map<int, Window>& windows, double fill, bool differentiable,
                                          uint32_t ranks) {
  OperatorPlan op;
  op.set_name(name);
  *op.mutable_from() = ToProto(from);
  *op.mutable_to() = ToProto(to);
  for (const auto& entry : windows) *op.add_window() = ToProto(entry.first, entry.second);
  op.set_fill(fill);
  op.set_differentiable(differentiable);
  ADJOIN_ASSIGN_OR_RETURN(const OperatorEnds ends, DistributionsOf(op));
  int64_t total = 0;
  std::string collective;
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    ADJOIN_ASSIGN_OR_RETURN(const MovementPlan plan, MovementPlan::Build(ends.from, ends.to, static_cast<int>(rank)));
    const int64_t bytes = plan.BytesSent();
    op.add_bytes_forward(bytes);
    if (differentiable) op.add_bytes_adjoint(plan.Reversed().BytesSent());
    if (collective.empty() && !plan.groups().empty()) collective = plan.Describe();
    total += bytes;
  }
  if (!collective.empty()) {
    op.set_algorithm(collective);
  } else if (total == 0) {
    op.set_algorithm("local");
  } else {
    op.set_algorithm(windows.empty() ? "box exchange" : "halo exchange");
  }
  return op;
}

absl::StatusOr<bool> IsIdentity(const OperatorPlan& op) {
  ADJOIN_ASSIGN_OR_RETURN(const OperatorEnds ends, DistributionsOf(op));
  for (int rank = 0; rank < op.bytes_forward_size(); ++rank) {
    if (op.bytes_forward(rank) > 0) return false;
  }
  for (int rank = 0; rank < op.bytes_forward_size(); ++rank) {
    ADJOIN_ASSIGN_OR_RETURN(const MovementPlan plan, MovementPlan::Build(ends.from, ends.to, rank));
    if (!KeepsEverything(plan, ends.from, ends.to)) return false;
  }
  return true;
}

}  // namespace adjoin
