#include "coordinator/placement/assignment.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
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
    for (int rank : rest) workers[rank] = smallest->worker;
    return true;
  }
  std::stable_sort(group.begin(), group.end(),
                   [](const Candidate& a, const Candidate& b) { return a.most_ranks > b.most_ranks; });
  size_t assigned = 0;
  for (const Candidate& candidate : group) {
    for (int i = 0; i < candidate.most_ranks && assigned < rest.size(); ++i)
      workers[rest[assigned++]] = candidate.worker;
  }
  return assigned == rest.size();
}

std::optional<Assignment> AssignWithin(CandidateGroup group, const AssignmentNeeds& job) {
  Assignment workers(job.rank_order.size());
  for (size_t r = 0; r < std::min(job.before.size(), workers.size()); ++r) {
    auto kept = std::find_if(group.begin(), group.end(), [&](const Candidate& c) { return c.worker == job.before[r]; });
    if (kept == group.end() || kept->most_ranks <= 0) continue;
    workers[r] = kept->worker;
    --kept->most_ranks;
  }
  if (!AssignRest(job.rank_order, std::move(group), workers)) return std::nullopt;
  return workers;
}

int FreeSlotsOf(const CandidateGroup& group) {
  int slots = 0;
  for (const Candidate& candidate : group) slots += candidate.free_slots;
  return slots;
}

CandidateGroup CandidatesOf(const std::vector<FreeSlots>& workers, const JobSpec& spec, const RankNeed& need) {
  CandidateGroup group;
  for (const FreeSlots& worker : workers) {
    const int room = RoomFor(worker, spec.resources(), need);
    if (room > 0) group.push_back({worker.worker, worker.slots, room});
  }
  return group;
}

std::vector<CandidateGroup> GroupsFor(const JobSpec& spec, const std::vector<FreeSlots>& free, const std::string& home,
                                      const RankNeed& need) {
  if (free.empty()) return {};
  std::vector<CandidateGroup> groups;
  const auto add = [&](CandidateGroup group) {
    if (!group.empty()) groups.push_back(std::move(group));
  };
  const bool any_root = !NeedsSharedOutput(spec) && home.empty();
  for (const std::vector<FreeSlots>& of_program : GroupsByProgram(free)) {
    if (any_root) {
      add(CandidatesOf(of_program, spec, need));
      continue;
    }
    for (const std::vector<FreeSlots>& workers : GroupsByOutputRoot(of_program)) {
      if (home.empty() || OutputGroup(workers.front()) == home) add(CandidatesOf(workers, spec, need));
    }
  }
  return groups;
}

absl::Status CheckChoice(const Assignment& workers, const std::vector<CandidateGroup>& groups, size_t ranks) {
  auto wrong = [](const auto&... what) {
    return absl::InternalError(absl::StrCat("the coordinator's assignment policy is wrong: it assigned ", what...));
  };
  if (workers.size() != ranks) return wrong(workers.size(), " ranks of ", ranks);
  if (ranks == 0) return absl::OkStatus();
  for (const CandidateGroup& group : groups) {
    std::map<std::string, int> room;
    for (const Candidate& candidate : group) room[candidate.worker] = candidate.most_ranks;
    if (room.count(workers[0]) == 0) continue;
    for (size_t r = 0; r < ranks; ++r) {
      auto found = room.find(workers[r]);
      if (found == room.end()) {
        return wrong("rank ", r, " to '", workers[r], "', which may not run the job together with ", workers[0]);
      }
      if (--found->second < 0) return wrong("more ranks to ", workers[r], " than it may run");
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
  const auto ran_before = [&](const CandidateGroup& group) {
    return std::any_of(group.begin(), group.end(), [&](const Candidate& candidate) {
      return std::find(job.before.begin(), job.before.end(), candidate.worker) != job.before.end();
    });
  };
  std::vector<const CandidateGroup*> in_turn;
  for (const CandidateGroup& group : groups) in_turn.push_back(&group);
  std::stable_sort(in_turn.begin(), in_turn.end(), [&](const CandidateGroup* a, const CandidateGroup* b) {
    const bool a_before = ran_before(*a), b_before = ran_before(*b);
    return a_before != b_before ? a_before : FreeSlotsOf(*a) < FreeSlotsOf(*b);
  });
  for (const CandidateGroup* group : in_turn) {
    if (std::optional<Assignment> workers = AssignWithin(*group, job)) return *std::move(workers);
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
