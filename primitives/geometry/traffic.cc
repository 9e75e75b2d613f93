#include "primitives/geometry/traffic.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "primitives/geometry/box.h"
#include "primitives/geometry/dtype.h"
#include "primitives/geometry/exchange_schedule.h"
#include "primitives/geometry/groups_of_counts.h"
#include "primitives/geometry/mesh.h"
#include "primitives/geometry/movement_plan.h"
#include "primitives/geometry/transfer_counts.h"

namespace adjoin {
namespace {

constexpr int kHighestRank = 1 << 24;
constexpr int kFewRanks = 8192;

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

void AddSteps(const CollectiveGroup& group, int position, DType dtype, RankTraffic& traffic) {
  const StepTotals totals = TotalsOf(group, position, dtype);
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
  for (const CollectiveGroup& group : plan.groups()) {
    const auto it = std::find(group.ranks.begin(), group.ranks.end(), plan.rank());
    AddSteps(group, static_cast<int>(it - group.ranks.begin()), plan.dtype(), traffic);
  }
  return traffic;
}

// True where this rank keeps all cells that it has, where they are, and nothing reaches or leaves it.
bool KeepsEverything(const MovementPlan& plan, const Distribution& from, const Distribution& to) {
  if (!from.mesh().Has(plan.rank()) && !to.mesh().Has(plan.rank())) return true;
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

// Makes `most` by component at least as large as `rank`.
void Raise(RankTraffic& most, const RankTraffic& rank) {
  most.bytes_sent = std::max(most.bytes_sent, rank.bytes_sent);
  most.bytes_received = std::max(most.bytes_received, rank.bytes_received);
  most.messages_sent = std::max(most.messages_sent, rank.messages_sent);
  most.messages_received = std::max(most.messages_received, rank.messages_received);
  most.bytes_kept = std::max(most.bytes_kept, rank.bytes_kept);
  most.bytes_added = std::max(most.bytes_added, rank.bytes_added);
  most.rounds = std::max(most.rounds, rank.rounds);
}

// Fills in what follows from `rank`.
void SumUp(Traffic& traffic) {
  for (const RankTraffic& rank : traffic.rank) {
    constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
    traffic.total_bytes = rank.bytes_sent > kMost - traffic.total_bytes ? kMost : traffic.total_bytes + rank.bytes_sent;
    Raise(traffic.busiest, rank);
  }
}

// True where all counts can be taken from tables: what is refused, is refused by the schedules.
bool CanBeCounted(const MovementView& ends) {
  const Layout& from = ends.from;
  const Layout& wanted = ends.readings.empty() ? ends.to : ends.read;
  if (from.dtype() != wanted.dtype() || from.shape() != wanted.shape()) return false;
  std::optional<ReduceOp> reduce;
  for (const Placement& placement : from.placements()) {
    if (placement.kind != Placement::Kind::kPartial) continue;
    if (placement.reduce != ReduceOp::kSum &&
        (from.dtype() == DType::kComplex64 || from.dtype() == DType::kComplex128)) {
      return false;
    }
    if (reduce.value_or(placement.reduce) != placement.reduce) return false;
    reduce = placement.reduce;
  }
  for (const Placement& placement : ends.to.placements()) {
    if (placement.kind == Placement::Kind::kPartial && placement.reduce != ReduceOp::kSum) return false;
  }
  return true;
}

// What MovementPlan::DescribeGroups says on a rank that is in these.
std::string DescribeGroups(const GroupsOfCounts& groups, std::vector<int> indices, ReduceOp reduce, DType dtype) {
  std::sort(indices.begin(), indices.end(), [&](int a, int b) {
    const CollectiveGroup &x = groups.GroupAt(a), &y = groups.GroupAt(b);
    return std::tie(x.ranks, x.kind) < std::tie(y.ranks, y.kind);
  });
  std::vector<std::string> parts;
  for (int index : indices) {
    if (!groups.Pays(index)) continue;
    parts.push_back(Describe(groups.GroupAt(index), reduce, AlgorithmOf(groups.GroupAt(index), dtype)));
  }
  return absl::StrJoin(parts, "; ");
}

// Bytes of so many elements; of more than any network can send, a number that is as much too large.
int64_t BytesOf(int64_t elements, int64_t size) {
  constexpr int64_t kMostElements = int64_t{1} << 58;
  return std::min(elements, kMostElements) * size;
}

void AddPlainList(const EndCounts& end, bool receives, int64_t size, RankTraffic& traffic) {
  const int64_t bytes = BytesOf(end.elements - end.kept, size), messages = end.transfers - (end.kept > 0 ? 1 : 0);
  if (messages > 0) traffic.rounds = std::max(traffic.rounds, 1);
  if (!receives) {
    traffic.bytes_sent += bytes;
    traffic.messages_sent += messages;
    return;
  }
  traffic.bytes_received += bytes;
  traffic.messages_received += messages;
  traffic.bytes_kept += end.kept * size;
  if (end.meets) traffic.bytes_added += BytesOf(end.elements, size);
}

// The groups that a rank's tensors take part in, on either side.
struct RankGroups {
  GroupsOfCounts::Place of_source, of_dest;
  bool both = false;  // they are one
};

// Calls visit(forward, adjoint, groups) for every rank. Returns whether the movement is an identity.
template <typename Visit>
bool ForEachRank(const TransferCounts& counts, const MovementView& ends, int ranks, GroupsOfCounts& groups,
                 const Visit& visit) {
  const Mesh &from = ends.from.mesh(), &to = ends.to.mesh();
  const DType dtype = ends.from.dtype();
  const int64_t size = SizeOf(dtype);
  const EndCounts outside;
  bool is_identity = true;
  for (int rank = 0; rank < ranks; ++rank) {
    const int p = PositionIn(from, rank), q = PositionIn(to, rank);
    const EndCounts& source = p < 0 ? outside : counts.from()[p];
    const EndCounts& dest = q < 0 ? outside : counts.to()[q];
    RankTraffic forward, adjoint;
    RankGroups of_rank;
    if (p >= 0) of_rank.of_source = groups.OfSource(p);
    if (q >= 0) of_rank.of_dest = groups.OfDest(q);
    const GroupsOfCounts::Place &of_source = of_rank.of_source, &of_dest = of_rank.of_dest;
    const bool source_pays = of_source.group >= 0 && groups.Pays(of_source.group);
    const bool dest_pays = of_dest.group >= 0 && groups.Pays(of_dest.group);
    if (!source_pays) {
      AddPlainList(source, /*receives=*/false, size, forward);
      AddPlainList(source, /*receives=*/true, size, adjoint);
    }
    if (!dest_pays) {
      AddPlainList(dest, /*receives=*/true, size, forward);
      AddPlainList(dest, /*receives=*/false, size, adjoint);
    }
    of_rank.both =
        of_source.group >= 0 && of_dest.group >= 0 &&
        (of_source.group == of_dest.group || groups.GroupAt(of_source.group) == groups.GroupAt(of_dest.group));
    for (const GroupsOfCounts::Place* place : {&of_source, &of_dest}) {
      if (place->group < 0 || !groups.Pays(place->group) || (place == &of_dest && of_rank.both)) continue;
      AddSteps(groups.GroupAt(place->group), place->position, dtype, forward);
      AddSteps(groups.AdjointAt(place->group), place->position, dtype, adjoint);
    }
    visit(forward, adjoint, of_rank);
    const bool in_both = p >= 0 && q >= 0;
    const bool kept = source.volume == 0 && dest.volume == 0
                          ? source.in_place && dest.in_place
                          : in_both && source.in_place && !source_pays && !dest_pays && source.transfers == 1 &&
                                dest.transfers == 1 && source.kept == source.volume;
    is_identity = is_identity && kept;
  }
  return is_identity;
}

// What Traffic::algorithm says of a rank in these groups.
std::string AlgorithmText(const GroupsOfCounts& groups, const RankGroups& of_rank, const Layout& from) {
  std::vector<int> indices;
  if (of_rank.of_source.group >= 0) indices.push_back(of_rank.of_source.group);
  if (of_rank.of_dest.group >= 0 && !of_rank.both) indices.push_back(of_rank.of_dest.group);
  std::string text = DescribeGroups(groups, indices, ReduceOf(from), from.dtype());
  for (int index : indices) {
    if (groups.Pays(index)) continue;
    absl::StrAppend(&text, text.empty() ? "" : "; ", Describe(groups.GroupAt(index), ReduceOf(from), "plain list"));
  }
  return text;
}

TwoWayTraffic TrafficOfCounts(const TransferCounts& counts, const MovementView& ends, int ranks) {
  GroupsOfCounts groups(counts, ends.from.mesh(), ends.to.mesh(), ends.from.dtype());
  TwoWayTraffic traffic;
  traffic.forward.rank.reserve(ranks);
  traffic.adjoint.rank.reserve(ranks);
  std::string& algorithm = traffic.forward.algorithm;
  const auto add = [&](const RankTraffic& forward, const RankTraffic& adjoint, const RankGroups& of_rank) {
    traffic.forward.rank.push_back(forward);
    traffic.adjoint.rank.push_back(adjoint);
    if (algorithm.empty() && (of_rank.of_source.group >= 0 || of_rank.of_dest.group >= 0)) {
      algorithm = AlgorithmText(groups, of_rank, ends.from);
    }
  };
  traffic.is_identity = ForEachRank(counts, ends, ranks, groups, add);
  traffic.adjoint.algorithm = traffic.forward.algorithm;
  SumUp(traffic.forward);
  SumUp(traffic.adjoint);
  return traffic;
}

BusiestTraffic BusiestOfCounts(const TransferCounts& counts, const MovementView& ends, int ranks) {
  GroupsOfCounts groups(counts, ends.from.mesh(), ends.to.mesh(), ends.from.dtype());
  BusiestTraffic most;
  const auto raise = [&](const RankTraffic& forward, const RankTraffic& adjoint, const RankGroups& of_rank) {
    Raise(most.forward, forward);
    Raise(most.adjoint, adjoint);
    most.has_groups = most.has_groups || of_rank.of_source.group >= 0 || of_rank.of_dest.group >= 0;
  };
  most.is_identity = ForEachRank(counts, ends, ranks, groups, raise);
  return most;
}

MovementView ViewOf(const MovementEnds& ends) {
  return {.from = ends.from,
          .to = ends.to,
          .readings = ends.readings,
          .read = ends.read.has_value() ? *ends.read : ends.from,
          .source = ends.source};
}

absl::StatusOr<Distribution> SourceOf(const MovementView& ends) {
  if (ends.source.empty()) return Distribution::Of(ends.from);
  return Distribution::Reads(ends.from, ends.source, ends.from);
}

absl::StatusOr<Distribution> DestinationOf(const MovementView& ends) {
  if (ends.readings.empty()) return Distribution::Of(ends.to);
  return Distribution::Reads(ends.read, ends.readings, ends.to);
}

// Calls count(counts, ranks), or returns what the schedules of all ranks give, where only these tell.
template <typename Result, typename Count, typename Convert>
absl::StatusOr<Result> CountedOrScheduled(const MovementView& ends, const Count& count, const Convert& convert) {
  ADJOIN_ASSIGN_OR_RETURN(const int ranks, RanksOf(ends.from.mesh(), ends.to.mesh()));
  if (!ends.source.empty()) ADJOIN_RETURN_IF_ERROR(CheckReadings(ends.from, ends.source, ends.from));
  if (!ends.readings.empty()) ADJOIN_RETURN_IF_ERROR(CheckReadings(ends.read, ends.readings, ends.to));
  if (CanBeCounted(ends)) {
    // A plan of few ranks has many movements, most of whose time would go into allocating memory for each.
    thread_local TransferCounts few_ranks;
    TransferCounts many_ranks;
    TransferCounts& counts = ranks <= kFewRanks ? few_ranks : many_ranks;
    if (counts.Count(ends.from, ends.source, ends.read, ends.readings, ends.to)) return count(counts, ranks);
  }
  ADJOIN_ASSIGN_OR_RETURN(const Distribution from, SourceOf(ends));
  ADJOIN_ASSIGN_OR_RETURN(const Distribution to, DestinationOf(ends));
  ADJOIN_ASSIGN_OR_RETURN(TwoWayTraffic traffic, TrafficBySchedules(from, to));
  return convert(std::move(traffic));
}

}  // namespace

bool operator==(const RankTraffic& a, const RankTraffic& b) {
  const auto tied = [](const RankTraffic& t) {
    return std::tie(t.bytes_sent, t.bytes_received, t.messages_sent, t.messages_received, t.bytes_kept, t.bytes_added,
                    t.rounds);
  };
  return tied(a) == tied(b);
}

absl::StatusOr<Distribution> MovementEnds::Source() const { return SourceOf(ViewOf(*this)); }

absl::StatusOr<Distribution> MovementEnds::Destination() const { return DestinationOf(ViewOf(*this)); }

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
  const MovementView view = ViewOf(ends);
  return CountedOrScheduled<TwoWayTraffic>(
      view, [&](const TransferCounts& counts, int ranks) { return TrafficOfCounts(counts, view, ranks); },
      [](TwoWayTraffic traffic) { return traffic; });
}

absl::StatusOr<BusiestTraffic> BusiestTrafficOf(const MovementView& ends) {
  return CountedOrScheduled<BusiestTraffic>(
      ends, [&](const TransferCounts& counts, int ranks) { return BusiestOfCounts(counts, ends, ranks); },
      [](const TwoWayTraffic& traffic) {
        return BusiestTraffic{.forward = traffic.forward.busiest,
                              .adjoint = traffic.adjoint.busiest,
                              .is_identity = traffic.is_identity,
                              .has_groups = !traffic.forward.algorithm.empty()};
      });
}

absl::StatusOr<Traffic> TrafficOf(const Layout& from, const Layout& to) {
  return TrafficOf(MovementEnds{.from = from, .to = to});
}

absl::StatusOr<Traffic> TrafficOf(const MovementEnds& ends) {
  ADJOIN_ASSIGN_OR_RETURN(TwoWayTraffic traffic, TwoWayTrafficOf(ends));
  return std::move(traffic.forward);
}

}  // namespace adjoin
