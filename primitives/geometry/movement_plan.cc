#include "primitives/geometry/movement_plan.h"

#include <algorithm>
#include <atomic>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "primitives/geometry/layout.h"

namespace adjoin {
namespace {

using GroupKind = CollectiveGroup::Kind;

bool IsWhole(const Transfer& transfer, const std::vector<int64_t>& shape) {
  return transfer.regions.size() == 1 && transfer.regions[0].size == shape;
}

// The peers of `transfers` where each transfer is the whole local tensor in one region; else none.
std::vector<int> WholePeers(const std::vector<Transfer>& transfers, const std::vector<int64_t>& shape) {
  std::vector<int> peers;
  for (const Transfer& transfer : transfers) {
    if (!IsWhole(transfer, shape)) return {};
    peers.push_back(transfer.peer);
  }
  return peers;
}

std::vector<int> Sources(const ExchangeSchedule& schedule) { return WholePeers(schedule.recvs(), schedule.to_shape()); }
std::vector<int> Dests(const ExchangeSchedule& schedule) { return WholePeers(schedule.sends(), schedule.from_shape()); }

// True where a rank sends its whole tensor to all `members` and receives whole tensors from exactly these, in this
// order.
bool Exchanges(const ExchangeSchedule& schedule, const std::vector<int>& members) {
  const std::vector<int> dests = Dests(schedule);
  return !members.empty() && Sources(schedule) == members && dests.size() == members.size() &&
         std::is_permutation(dests.begin(), dests.end(), members.begin());
}

// Finds groups from every member's plain list, so that every member finds the same.
class GroupFinder {
 public:
  GroupFinder(const Distribution& from, const Distribution& to, const ExchangeSchedule& own, AlgorithmChoice choice)
      : from_(from), to_(to), own_(own), choice_(choice) {
    if (from.mesh() == to.mesh()) coords_ = from.mesh().CoordsOf(own.rank());
    views_decide_ = from.mesh() != to.mesh();
    for (int axis = 0; axis < from.mesh().axes(); ++axis) {
      const bool copies = from.placements()[axis].kind == Placement::Kind::kBroadcast && from.mesh().shape()[axis] > 1;
      views_decide_ = views_decide_ && !copies;
    }
  }

  // True where the group's algorithm is taken; else its transfers stay in the plain list.
  bool Pays(const CollectiveGroup& group) const {
    return choice_ == AlgorithmChoice::kGroups || !PlainListIsCheaper(group, from_.dtype());
  }

  // The group that takes this rank's source tensor.
  absl::StatusOr<std::optional<CollectiveGroup>> OfSource() const {
    const std::vector<int> dests = Dests(own_);
    if (dests.empty()) return std::optional<CollectiveGroup>();
    if (dests.size() == 1) return Rooted(GroupKind::kSumReduce, dests[0]);
    ADJOIN_ASSIGN_OR_RETURN(std::optional<CollectiveGroup> all, AllSumReduce(Sources(own_)));
    if (all.has_value()) return all;
    return Rooted(GroupKind::kBroadcast, own_.rank());
  }

  // The group that gives this rank's destination tensor.
  absl::StatusOr<std::optional<CollectiveGroup>> OfDest() const {
    const std::vector<int> sources = Sources(own_);
    if (sources.empty()) return std::optional<CollectiveGroup>();
    if (sources.size() == 1) return Rooted(GroupKind::kBroadcast, sources[0]);
    ADJOIN_ASSIGN_OR_RETURN(std::optional<CollectiveGroup> all, AllSumReduce(sources));
    if (all.has_value()) return all;
    return Rooted(GroupKind::kSumReduce, own_.rank());
  }

 private:
  absl::StatusOr<ExchangeSchedule> ScheduleOf(int rank) const {
    if (rank == own_.rank()) return own_;
    return ExchangeSchedule::Build(from_, to_, rank);
  }

  // Every member sends its whole tensor to all members and receives whole tensors from exactly them.
  absl::StatusOr<std::optional<CollectiveGroup>> AllSumReduce(const std::vector<int>& members) const {
    if (!Exchanges(own_, members)) return std::optional<CollectiveGroup>();
    const CollectiveGroup group = {GroupKind::kAllSumReduce, members, own_.sends()[0].elements, true};
    if (!Pays(group)) return std::make_optional(group);  // the others need not be asked
    for (int rank : members) {
      if (HasOwnLists(rank)) continue;
      ADJOIN_ASSIGN_OR_RETURN(const ExchangeSchedule schedule, ScheduleOf(rank));
      if (!Exchanges(schedule, members)) return std::optional<CollectiveGroup>();
    }
    return std::make_optional(group);
  }

  // True where `rank` differs from this rank only along axes of one mesh that go from P to B. Neither what a rank holds
  // nor whom the selection joins it with depends on those, so its lists need not be built: with a thousand ranks that
  // would take seconds.
  bool HasOwnLists(int rank) const {
    if (!coords_.has_value()) return false;
    const std::vector<int64_t> other = *from_.mesh().CoordsOf(rank);
    for (size_t axis = 0; axis < other.size(); ++axis) {
      const bool summed = from_.placements()[axis].kind == Placement::Kind::kPartial &&
                          to_.placements()[axis].kind == Placement::Kind::kBroadcast;
      if (!summed && (*coords_)[axis] != other[axis]) return false;
    }
    return true;
  }

  // A broadcast's root sends its whole tensor to every destination, each of which has nothing else; a sum-reduce is the
  // same read backwards. Between two ranks it could be called either.
  absl::StatusOr<std::optional<CollectiveGroup>> Rooted(GroupKind kind, int root) const {
    const bool broadcast = kind == GroupKind::kBroadcast;
    ADJOIN_ASSIGN_OR_RETURN(const ExchangeSchedule schedule, ScheduleOf(root));
    const std::vector<int> leaves = broadcast ? Dests(schedule) : Sources(schedule);
    CollectiveGroup group{kind, {root}, 0, false};
    const LocalView* checked = nullptr;
    for (int leaf : leaves) {
      const LocalView& view = broadcast ? to_.View(leaf) : from_.View(leaf);
      if (!views_decide_ || checked == nullptr || !(view == *checked)) {
        ADJOIN_ASSIGN_OR_RETURN(const ExchangeSchedule other, ScheduleOf(leaf));
        const std::vector<int> only = broadcast ? Sources(other) : Dests(other);
        if (only != std::vector<int>{root}) return std::optional<CollectiveGroup>();
        checked = &view;
      }
      if (leaf == root) {
        group.root_takes_part = true;
      } else {
        group.ranks.push_back(leaf);
      }
    }
    group.elements = VolumeOf(broadcast ? schedule.from_shape() : schedule.to_shape());
    if (group.ranks.size() < 3) return std::optional<CollectiveGroup>();
    return std::make_optional(std::move(group));
  }

  const Distribution& from_;
  const Distribution& to_;
  const ExchangeSchedule& own_;
  AlgorithmChoice choice_;
  std::optional<std::vector<int64_t>> coords_;  // this rank's, where both sides have one mesh
  // True between two meshes where the source has no copies: ranks with the same view have the same peers, so that of
  // the thousand leaves of a tree one list need be built.
  bool views_decide_ = false;
};

const char* NameOf(ReduceOp reduce) {
  switch (reduce) {
    case ReduceOp::kSum: return "sum";
    case ReduceOp::kMax: return "max";
    case ReduceOp::kMin: return "min";
  }
  return "?";
}

struct SideTotals {
  int64_t elements = 0;
  int64_t kept = 0;
  int ranks = 0;
};

SideTotals SideOf(const std::vector<Transfer>& transfers, int rank) {
  SideTotals side;
  for (const Transfer& transfer : transfers) {
    if (transfer.peer == rank) {
      side.kept += transfer.elements;
    } else {
      side.elements += transfer.elements;
      ++side.ranks;
    }
  }
  return side;
}

std::string RanksText(int ranks) { return absl::StrCat(ranks, ranks == 1 ? " rank" : " ranks"); }

}  // namespace

std::string Describe(const CollectiveGroup& group, ReduceOp reduce, const std::string& algorithm_name) {
  const size_t others = group.ranks.size() - 1;
  const std::string algorithm = absl::StrCat(" (", algorithm_name, ")");
  switch (group.kind) {
    case CollectiveGroup::Kind::kBroadcast:
      return absl::StrCat("broadcast of ", group.elements, " elements from rank ", group.ranks[0], " to ",
                          others + (group.root_takes_part ? 1 : 0), " ranks", algorithm);
    case CollectiveGroup::Kind::kSumReduce:
      return absl::StrCat(NameOf(reduce), "-reduce of ", group.elements, " elements from ",
                          others + (group.root_takes_part ? 1 : 0), " ranks to rank ", group.ranks[0], algorithm);
    case CollectiveGroup::Kind::kAllSumReduce:
      return absl::StrCat("all-", NameOf(reduce), "-reduce of ", group.elements, " elements over ", group.ranks.size(),
                          " ranks", algorithm);
  }
  return "";
}

uint64_t MovementPlan::NextSerial() {
  static std::atomic<uint64_t> last{0};
  return ++last;
}

absl::StatusOr<MovementPlan> MovementPlan::Build(const Distribution& from, const Distribution& to, int rank,
                                                 AlgorithmChoice choice) {
  MovementPlan plan;
  plan.serial_ = NextSerial();
  plan.dtype_ = from.dtype();
  plan.reduce_ = ReduceOf(from);
  ADJOIN_ASSIGN_OR_RETURN(plan.direct_, ExchangeSchedule::Build(from, to, rank));
  const GroupFinder finder(from, to, plan.direct_, choice);
  ADJOIN_ASSIGN_OR_RETURN(std::optional<CollectiveGroup> of_source, finder.OfSource());
  ADJOIN_ASSIGN_OR_RETURN(std::optional<CollectiveGroup> of_dest, finder.OfDest());
  for (const auto* found : {&of_source, &of_dest}) {
    if (!found->has_value() || (found == &of_dest && of_source == of_dest)) continue;
    (finder.Pays(**found) ? plan.groups_ : plan.listed_).push_back(**found);
  }
  if (of_source.has_value() && finder.Pays(*of_source)) plan.direct_ = plan.direct_.WithoutSends();
  if (of_dest.has_value() && finder.Pays(*of_dest)) plan.direct_ = plan.direct_.WithoutRecvs();
  std::sort(plan.groups_.begin(), plan.groups_.end(), [](const CollectiveGroup& a, const CollectiveGroup& b) {
    return std::tie(a.ranks, a.kind) < std::tie(b.ranks, b.kind);
  });
  return plan;
}

MovementPlan MovementPlan::Reversed() const {
  MovementPlan plan;
  plan.serial_ = NextSerial();
  plan.dtype_ = dtype_;
  plan.direct_ = direct_.Reversed();
  plan.groups_ = groups_;
  plan.listed_ = listed_;
  for (std::vector<CollectiveGroup>* groups : {&plan.groups_, &plan.listed_}) {
    for (CollectiveGroup& group : *groups) {
      if (group.kind == GroupKind::kAllSumReduce) continue;
      group.kind = group.kind == GroupKind::kBroadcast ? GroupKind::kSumReduce : GroupKind::kBroadcast;
    }
  }
  return plan;
}

MovementPlan MovementPlan::With(ReduceOp reduce, DType dtype) const {
  MovementPlan plan = *this;
  plan.serial_ = NextSerial();
  plan.reduce_ = reduce;
  plan.dtype_ = dtype;
  return plan;
}

int64_t MovementPlan::BytesSent() const {
  int64_t elements = direct_.ElementsSent();
  for (const CollectiveGroup& group : groups_) {
    const auto it = std::find(group.ranks.begin(), group.ranks.end(), rank());
    const int position = static_cast<int>(it - group.ranks.begin());
    elements += TotalsOf(group, position, dtype_).elements_sent;
  }
  return elements * SizeOf(dtype_);
}

std::string MovementPlan::DescribeGroups() const {
  std::vector<std::string> parts;
  for (const CollectiveGroup& group : groups_)
    parts.push_back(adjoin::Describe(group, reduce_, AlgorithmOf(group, dtype_)));
  for (const CollectiveGroup& group : listed_) parts.push_back(adjoin::Describe(group, reduce_, "plain list"));
  return absl::StrJoin(parts, "; ");
}

std::string MovementPlan::Describe() const {
  std::vector<std::string> parts;
  if (!groups_.empty() || !listed_.empty()) parts.push_back(DescribeGroups());
  const SideTotals sends = SideOf(direct_.sends(), rank());
  const SideTotals recvs = SideOf(direct_.recvs(), rank());
  if (sends.ranks > 0) parts.push_back(absl::StrCat("sends ", sends.elements, " elements to ", RanksText(sends.ranks)));
  if (recvs.ranks > 0) {
    const char* what = !direct_.accumulates()      ? "receives "
                       : reduce_ == ReduceOp::kSum ? "adds up "
                       : reduce_ == ReduceOp::kMax ? "takes the maximum of "
                                                   : "takes the minimum of ";
    parts.push_back(absl::StrCat(what, recvs.elements, " elements from ", RanksText(recvs.ranks)));
  }
  if (recvs.kept > 0) parts.push_back(absl::StrCat("keeps ", recvs.kept, " elements"));
  if (parts.empty()) return "nothing";
  return absl::StrCat(absl::StrJoin(parts, "; "), "; ", BytesSent(), " bytes leave rank ", rank());
}

}  // namespace adjoin
