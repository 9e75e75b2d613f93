#include "coordinator/placement/assignment.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/caught.h"
#include "coordinator/placement/rank_order.h"
#include "coordinator/placement/rank_programs.h"
#include "coordinator/placement/shared_output.h"

namespace adjoin {
namespace {

// Assigns the ranks that have no worker yet.
bool AssignRest(const std::vector<int>& order, CandidateGroup group, Assignment& workers) {
  std::vector<int> rest;
  for (int rank : order) {
    if (workers[rank].empty()) rest.push_back(rank);
  }
  const Candidate* smallest = nullptr;
  for (const Candidate& candidate : group) {
    const bool fits = candidate.most_ranks >= static_cast<int>(rest.size());
    if (fits && (smallest == nullptr || candidate.most_ranks < smallest->most_ranks)) smallest = &candidate;
  }
  if (smallest != nullptr) {
    for (int rank : rest) workers[rank] = std::string(smallest->worker);
    return true;
  }
  std::stable_sort(group.begin(), group.end(),
                   [](const Candidate& a, const Candidate& b) { return a.most_ranks > b.most_ranks; });
  size_t assigned = 0;
  for (const Candidate& candidate : group) {
    for (int i = 0; i < candidate.most_ranks && assigned < rest.size(); ++i)
      workers[rest[assigned++]] = std::string(candidate.worker);
  }
  return assigned == rest.size();
}

std::optional<Assignment> AssignWithin(CandidateGroup group, const AssignmentNeeds& job) {
  Assignment workers(job.rank_order.size());
  std::map<absl::string_view, Candidate*> kept;
  for (const std::string& name : job.before) kept[name] = nullptr;
  for (size_t c = 0; c < group.size() && !kept.empty(); ++c) {
    if (const auto found = kept.find(group[c].worker); found != kept.end()) found->second = &group[c];
  }
  for (size_t r = 0; r < std::min(job.before.size(), workers.size()); ++r) {
    Candidate* const worker = kept.at(job.before[r]);
    if (worker == nullptr || worker->most_ranks <= 0) continue;
    workers[r] = job.before[r];
    --worker->most_ranks;
  }
  if (!AssignRest(job.rank_order, std::move(group), workers)) return std::nullopt;
  return workers;
}

int FreeSlotsOf(const CandidateGroup& group) {
  int slots = 0;
  for (const Candidate& candidate : group) slots += candidate.free_slots;
  return slots;
}

std::vector<CandidateGroup> GroupsFor(const JobSpec& spec, const std::vector<FreeSlots>& free, const std::string& home,
                                      const RankNeed& need) {
  const bool any_root = !NeedsSharedOutput(spec) && home.empty();
  using Key = std::pair<ProgramKey, OutputRoot>;
  std::map<Key, CandidateGroup> by_key;
  Key last;  // that of `group`: most workers are in one
  CandidateGroup* group = nullptr;
  for (const FreeSlots& worker : free) {
    const int room = RoomFor(worker, spec.resources(), need);
    if (room == 0 || (!home.empty() && OutputRootOf(worker).ToString() != home)) continue;
    const Key key = {ProgramOf(worker), any_root ? OutputRoot() : OutputRootOf(worker)};
    if (group == nullptr || key != last) group = &by_key[last = key];
    group->push_back({worker.worker, worker.slots, room});
  }
  std::vector<CandidateGroup> groups;
  for (auto& [key, candidates] : by_key) groups.push_back(std::move(candidates));
  return groups;
}

absl::Status CheckChoice(const Assignment& workers, const std::vector<CandidateGroup>& groups, size_t ranks) {
  auto wrong = [](const auto&... what) {
    return absl::InternalError(absl::StrCat("the coordinator's assignment policy is wrong: it assigned ", what...));
  };
  if (workers.size() != ranks) return wrong(workers.size(), " ranks of ", ranks);
  if (ranks == 0) return absl::OkStatus();
  for (const CandidateGroup& group : groups) {
    std::map<absl::string_view, std::optional<int>> room;  // of the workers that were chosen
    for (const std::string& worker : workers) room[worker] = std::nullopt;
    for (const Candidate& candidate : group) {
      if (const auto chosen = room.find(candidate.worker); chosen != room.end()) chosen->second = candidate.most_ranks;
    }
    if (!room.at(workers[0]).has_value()) continue;
    for (size_t r = 0; r < ranks; ++r) {
      std::optional<int>& left = room.at(workers[r]);
      if (!left.has_value()) {
        return wrong("rank ", r, " to '", workers[r], "', which may not run the job together with ", workers[0]);
      }
      if (--*left < 0) return wrong("more ranks to ", workers[r], " than it may run");
    }
    return absl::OkStatus();
  }
  return wrong("rank 0 to '", workers[0], "', which may not run the job");
}

}  // namespace

int RoomFor(const FreeSlots& worker, const Resources& resources, const RankNeed& need) {
  int64_t ranks = std::max(worker.slots, 0);
  if (resources.max_ranks_per_node() > 0) ranks = std::min<int64_t>(ranks, resources.max_ranks_per_node());
  if (resources.gpus() > 0) ranks = std::min<int64_t>(ranks, std::max(worker.gpus, 0) / int64_t{resources.gpus()});
  if (need.memory > 0 && worker.memory.has_value()) {
    ranks = std::min(ranks, std::max<int64_t>(*worker.memory, 0) / need.memory);
  }
  if (resources.gpus() > 0 && worker.gpu_memory.has_value() && *worker.gpu_memory < need.gpu) ranks = 0;
  return static_cast<int>(ranks);
}

absl::StatusOr<Assignment> AssignCompactly(const std::vector<CandidateGroup>& groups, const AssignmentNeeds& job) {
  const std::set<absl::string_view> before(job.before.begin(), job.before.end());
  struct Turn {
    bool first;  // some rank ran there
    int free_slots;
    const CandidateGroup* group;
  };
  std::vector<Turn> turns;
  for (const CandidateGroup& group : groups) {
    const bool first = std::any_of(group.begin(), group.end(),
                                   [&](const Candidate& candidate) { return before.count(candidate.worker) > 0; });
    turns.push_back({first, FreeSlotsOf(group), &group});
  }
  std::stable_sort(turns.begin(), turns.end(), [](const Turn& a, const Turn& b) {
    return a.first != b.first ? a.first : a.free_slots < b.free_slots;
  });
  for (const Turn& turn : turns) {
    if (std::optional<Assignment> workers = AssignWithin(*turn.group, job)) return *std::move(workers);
  }
  return absl::ResourceExhaustedError("the workers that may run the job together have too few slots");
}

absl::StatusOr<Assignment> Assign(const AssignmentPolicy& policy, const JobSpec& spec,
                                  const std::vector<FreeSlots>& free, Assignment before, const std::string& home,
                                  const RankNeed& need) {
  const std::vector<CandidateGroup> groups = GroupsFor(spec, free, home, need);
  if (groups.empty()) return absl::ResourceExhaustedError("no worker has a slot for the job");
  const AssignmentNeeds needs = {AssignmentOrder(spec), std::move(before)};
  absl::StatusOr<Assignment> workers = Caught("the assignment policy", [&] { return policy(groups, needs); });
  if (!workers.ok()) return workers;
  if (absl::Status allowed = CheckChoice(*workers, groups, spec.ranks()); !allowed.ok()) return allowed;
  return workers;
}

}  // namespace adjoin
