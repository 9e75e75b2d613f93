#include "primitives/geometry/traffic.h"

#include <algorithm>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "primitives/geometry/box.h"
#include "primitives/geometry/dtype.h"
#include "primitives/geometry/movement_plan.h"

namespace adjoin {
namespace {

constexpr int kHighestRank = 1 << 24;

// Ranks from 0 to the highest one of either mesh.
absl::StatusOr<int> RanksOf(const Mesh& from, const Mesh& to) {
  int highest = 0;
  for (const Mesh* mesh : {&from, &to}) {
    for (int rank : mesh->ranks()) highest = std::max(highest, rank);
  }
  if (highest > kHighestRank) {
    return absl::InvalidArgumentError(
        absl::StrCat("the traffic of rank ", highest, " is not counted; the highest possible one is ", kHighestRank));
  }
  return highest + 1;
}

void AddSteps(const CollectiveGroup& group, int rank, DType dtype, RankTraffic& traffic) {
  const auto it = std::find(group.ranks.begin(), group.ranks.end(), rank);
  const StepTotals totals = TotalsOf(group, static_cast<int>(it - group.ranks.begin()), dtype);
  traffic.bytes_sent += totals.elements_sent * SizeOf(dtype);
  traffic.bytes_received += totals.elements_received * SizeOf(dtype);
  traffic.messages_sent += totals.messages_sent;
  traffic.messages_received += totals.messages_received;
  traffic.bytes_added += totals.elements_added * SizeOf(dtype);
  traffic.rounds += totals.rounds;
}

RankTraffic TrafficOfPlan(const MovementPlan& plan) {
  RankTraffic traffic;
  const int64_t size = SizeOf(plan.dtype());
  for (const Transfer& transfer : plan.direct().sends()) {
    if (transfer.peer == plan.rank()) continue;
    traffic.bytes_sent += transfer.elements * size;
    ++traffic.messages_sent;
  }
  for (const Transfer& transfer : plan.direct().recvs()) {
    if (plan.direct().accumulates()) traffic.bytes_added += transfer.elements * size;
    if (transfer.peer == plan.rank()) {
      traffic.bytes_kept += transfer.elements * size;
    } else {
      traffic.bytes_received += transfer.elements * size;
      ++traffic.messages_received;
    }
  }
  if (traffic.messages_sent + traffic.messages_received > 0) traffic.rounds = 1;
  for (const CollectiveGroup& group : plan.groups()) AddSteps(group, plan.rank(), plan.dtype(), traffic);
  return traffic;
}

// True where this rank keeps all cells that it has, where they are, and nothing reaches or leaves it.
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

// Fills in what follows from `rank`.
void SumUp(Traffic& traffic) {
  RankTraffic& most = traffic.busiest;
  for (const RankTraffic& rank : traffic.rank) {
    traffic.total_bytes += rank.bytes_sent;
    most.bytes_sent = std::max(most.bytes_sent, rank.bytes_sent);
    most.bytes_received = std::max(most.bytes_received, rank.bytes_received);
    most.messages_sent = std::max(most.messages_sent, rank.messages_sent);
    most.messages_received = std::max(most.messages_received, rank.messages_received);
    most.bytes_kept = std::max(most.bytes_kept, rank.bytes_kept);
    most.bytes_added = std::max(most.bytes_added, rank.bytes_added);
    most.rounds = std::max(most.rounds, rank.rounds);
  }
}

}  // namespace

bool operator==(const RankTraffic& a, const RankTraffic& b) {
  const auto tied = [](const RankTraffic& t) {
    return std::tie(t.bytes_sent, t.bytes_received, t.messages_sent, t.messages_received, t.bytes_kept, t.bytes_added,
                    t.rounds);
  };
  return tied(a) == tied(b);
}

absl::StatusOr<Distribution> MovementEnds::Source() const {
  if (source.empty()) return Distribution::Of(from);
  return Distribution::Reads(from, source, from);
}

absl::StatusOr<Distribution> MovementEnds::Destination() const {
  if (readings.empty()) return Distribution::Of(to);
  return Distribution::Reads(read.has_value() ? *read : from, readings, to);
}

absl::StatusOr<TwoWayTraffic> TrafficBySchedules(const Distribution& from, const Distribution& to) {
  ADJOIN_ASSIGN_OR_RETURN(const int ranks, RanksOf(from.mesh(), to.mesh()));
  TwoWayTraffic traffic;
  traffic.is_identity = true;
  for (int rank = 0; rank < ranks; ++rank) {
    ADJOIN_ASSIGN_OR_RETURN(const MovementPlan plan, MovementPlan::Build(from, to, rank));
    traffic.forward.rank.push_back(TrafficOfPlan(plan));
    traffic.adjoint.rank.push_back(TrafficOfPlan(plan.Reversed()));
    if (traffic.forward.algorithm.empty()) traffic.forward.algorithm = plan.DescribeGroups();
    traffic.is_identity = traffic.is_identity && KeepsEverything(plan, from, to);
  }
  traffic.adjoint.algorithm = traffic.forward.algorithm;
  SumUp(traffic.forward);
  SumUp(traffic.adjoint);
  return traffic;
}

absl::StatusOr<TwoWayTraffic> TwoWayTrafficOf(const MovementEnds& ends) {
  ADJOIN_ASSIGN_OR_RETURN(const Distribution from, ends.Source());
  ADJOIN_ASSIGN_OR_RETURN(const Distribution to, ends.Destination());
  return TrafficBySchedules(from, to);
}

absl::StatusOr<Traffic> TrafficOf(const Layout& from, const Layout& to) {
  return TrafficOf(MovementEnds{.from = from, .to = to});
}

absl::StatusOr<Traffic> TrafficOf(const MovementEnds& ends) {
  ADJOIN_ASSIGN_OR_RETURN(TwoWayTraffic traffic, TwoWayTrafficOf(ends));
  return std::move(traffic.forward);
}

}  // namespace adjoin
