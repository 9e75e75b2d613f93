#include "primitives/geometry/groups_of_counts.h"

#include <algorithm>
#include <utility>

namespace adjoin {
namespace {

using GroupKind = CollectiveGroup::Kind;

CollectiveGroup AdjointOf(CollectiveGroup group) {
  if (group.kind != GroupKind::kAllSumReduce) {
    group.kind = group.kind == GroupKind::kBroadcast ? GroupKind::kSumReduce : GroupKind::kBroadcast;
  }
  return group;
}

std::vector<int> RanksAt(const Mesh& mesh, const std::vector<int>& positions) {
  std::vector<int> ranks;
  ranks.reserve(positions.size());
  for (int position : positions) ranks.push_back(mesh.ranks()[position]);
  return ranks;
}

}  // namespace

int PositionIn(const Mesh& mesh, int rank) {
  // Most meshes have the ranks 0, 1, ...
  if (rank < mesh.size() && mesh.ranks()[rank] == rank) return rank;
  return static_cast<int>(mesh.IndexOf(rank).value_or(-1));
}

GroupsOfCounts::Place GroupsOfCounts::OfSource(int p) {
  const EndCounts& own = counts_.from()[p];
  if (!own.whole) return {};
  const int rank = from_.ranks()[p];
  if (own.transfers == 1) return PlaceIn(Reduce(own.first), rank);
  if (const std::optional<Place> all = AllReduce(p, PositionIn(to_, rank)); all.has_value()) return *all;
  return PlaceIn(Broadcast(p), rank);
}

GroupsOfCounts::Place GroupsOfCounts::OfDest(int q) {
  const EndCounts& own = counts_.to()[q];
  if (!own.whole) return {};
  const int rank = to_.ranks()[q];
  if (own.transfers == 1) return PlaceIn(Broadcast(own.first), rank);
  if (const std::optional<Place> all = AllReduce(PositionIn(from_, rank), q); all.has_value()) return *all;
  return PlaceIn(Reduce(q), rank);
}

int GroupsOfCounts::Add(CollectiveGroup group) {
  places_.emplace_back();
  places_.back().reserve(group.ranks.size());
  for (size_t i = 0; i < group.ranks.size(); ++i) places_.back().emplace(group.ranks[i], static_cast<int>(i));
  pays_.push_back(!PlainListIsCheaper(group, dtype_));
  adjoints_.push_back(AdjointOf(group));
  groups_.push_back(std::move(group));
  return static_cast<int>(groups_.size()) - 1;
}

GroupsOfCounts::Place GroupsOfCounts::PlaceIn(int group, int rank) const {
  if (group < 0) return {};
  return {group, places_[group].at(rank)};
}

// Every leaf has the root for its only partner.
int GroupsOfCounts::Rooted(GroupKind kind, int root) {
  const bool broadcast = kind == GroupKind::kBroadcast;
  const EndCounts& own = broadcast ? counts_.from()[root] : counts_.to()[root];
  const std::vector<EndCounts>& others = broadcast ? counts_.to() : counts_.from();
  const Mesh& leaves = broadcast ? to_ : from_;
  // A group has three ranks or more.
  if (!own.whole || own.transfers < 2) return -1;
  // One leaf tells most often, without a list of all: every rank of an all-gather would make one.
  if (!others[own.first].whole || others[own.first].transfers != 1) return -1;
  CollectiveGroup group{.kind = kind,
                        .ranks = {(broadcast ? from_ : to_).ranks()[root]},
                        .elements = own.volume,
                        .root_takes_part = false};
  for (int leaf : counts_.PartnersOf(broadcast ? Side::kFrom : Side::kTo, root)) {
    if (!others[leaf].whole || others[leaf].transfers != 1) return -1;
    if (leaves.ranks()[leaf] == group.ranks[0]) {
      group.root_takes_part = true;
    } else {
      group.ranks.push_back(leaves.ranks()[leaf]);
    }
  }
  return group.ranks.size() < 3 ? -1 : Add(std::move(group));
}

int GroupsOfCounts::Broadcast(int p) {
  if (broadcast_.empty()) broadcast_.assign(from_.size(), kUnknown);
  if (broadcast_[p] == kUnknown) broadcast_[p] = Rooted(GroupKind::kBroadcast, p);
  return broadcast_[p];
}

int GroupsOfCounts::Reduce(int q) {
  if (reduce_.empty()) reduce_.assign(to_.size(), kUnknown);
  if (reduce_[q] == kUnknown) reduce_[q] = Rooted(GroupKind::kSumReduce, q);
  return reduce_[q];
}

// True where the rank sends its whole tensor to all `members` and receives whole tensors from exactly these.
bool GroupsOfCounts::Exchanges(int p, int q, const std::vector<int>& members) const {
  const EndCounts &sends = counts_.from()[p], &receives = counts_.to()[q];
  if (!sends.whole || !receives.whole || sends.transfers != receives.transfers) return false;
  if (receives.transfers != static_cast<int64_t>(members.size())) return false;
  if (RanksAt(from_, counts_.PartnersOf(Side::kTo, q)) != members) return false;
  std::vector<int> dests = RanksAt(to_, counts_.PartnersOf(Side::kFrom, p)), sorted = members;
  std::sort(dests.begin(), dests.end());
  std::sort(sorted.begin(), sorted.end());
  return dests == sorted;
}

// As MovementPlan: where it does not pay, the other members are not asked.
std::optional<GroupsOfCounts::Place> GroupsOfCounts::AllReduce(int p, int q) {
  if (p < 0 || q < 0) return std::nullopt;
  if (all_.empty()) all_.assign(from_.size(), kUnknown);
  if (all_[p] >= 0) return PlaceIn(all_[p], from_.ranks()[p]);
  const EndCounts &sends = counts_.from()[p], &receives = counts_.to()[q];
  if (!sends.whole || !receives.whole || sends.transfers != receives.transfers) return std::nullopt;
  const std::vector<int> sources = counts_.PartnersOf(Side::kTo, q);
  const std::vector<int> members = RanksAt(from_, sources);
  if (!Exchanges(p, q, members)) return std::nullopt;
  bool all = true;
  for (size_t i = 0; all && i < sources.size(); ++i) {
    const int other = PositionIn(to_, members[i]);
    const bool same = other >= 0 && counts_.HaveSamePartners(Side::kFrom, p, sources[i]) &&
                      counts_.HaveSamePartners(Side::kTo, q, other);
    all = same || (other >= 0 && Exchanges(sources[i], other, members));
  }
  const CollectiveGroup group{
      .kind = GroupKind::kAllSumReduce, .ranks = members, .elements = sends.volume, .root_takes_part = true};
  if (!all && !PlainListIsCheaper(group, dtype_)) return std::nullopt;
  const int index = Add(group);
  if (all) {
    for (int source : sources) all_[source] = index;
  }
  const auto found = places_[index].find(from_.ranks()[p]);
  return Place{index, found == places_[index].end() ? 0 : found->second};
}

}  // namespace adjoin
