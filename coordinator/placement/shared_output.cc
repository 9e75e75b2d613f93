#include "coordinator/placement/shared_output.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "coordinator/placement/rank_order.h"

namespace adjoin {
namespace {

std::vector<std::vector<FreeSlots>> Groups(const std::vector<FreeSlots>& workers) {
  std::map<std::string, std::vector<FreeSlots>> by_id;
  for (const FreeSlots& worker : workers) {
    by_id[OutputGroup(worker)].push_back(worker);
  }
  std::vector<std::vector<FreeSlots>> groups;
  for (auto& [id, members] : by_id) groups.push_back(std::move(members));
  return groups;
}

int SlotsOf(const std::vector<FreeSlots>& workers) {
  int slots = 0;
  for (const FreeSlots& worker : workers) slots += worker.slots;
  return slots;
}

// "node-1 (4 slots) and node-2 (4 slots)"
std::string Names(const std::vector<FreeSlots>& group) {
  return absl::StrJoin(group, " and ", [](std::string* out, const FreeSlots& worker) {
    absl::StrAppend(out, worker.worker, " (", worker.slots, worker.slots == 1 ? " slot)" : " slots)");
  });
}

std::optional<std::vector<std::string>> Place(const JobSpec& spec, const std::vector<FreeSlots>& free,
                                              const std::vector<std::string>& before) {
  return PlaceRanks(PlacementOrder(spec), static_cast<int>(spec.resources().max_ranks_per_node()), free, before);
}

}  // namespace

bool NeedsSharedOutput(const JobSpec& spec) {
  return spec.kind() == PREDICT || KeepsCheckpoints(spec);
}

bool KeepsCheckpoints(const JobSpec& spec) {
  return !spec.checkpoint().dir().empty() || !spec.checkpoint().resume_from().empty();
}

// No output_id has a blank.
std::string OutputGroup(const FreeSlots& worker) {
  return worker.output_id.empty() ? absl::StrCat("only ", worker.worker) : worker.output_id;
}

bool ShareAll(const std::vector<FreeSlots>& workers) {
  return std::all_of(workers.begin(), workers.end(), [&](const FreeSlots& worker) {
    return !worker.output_id.empty() && worker.output_id == workers.front().output_id;
  });
}

std::optional<std::vector<std::string>> PlaceJob(const JobSpec& spec, const std::vector<FreeSlots>& free,
                                                 const std::vector<std::string>& before, const std::string& home) {
  if (!NeedsSharedOutput(spec)) return Place(spec, free, before);
  std::vector<std::vector<FreeSlots>> groups = Groups(free);
  // Where the ranks ran before comes first; else the fewest free slots that do, as for single workers.
  const auto ran_before = [&](const std::vector<FreeSlots>& group) {
    return std::any_of(group.begin(), group.end(), [&](const FreeSlots& worker) {
      return std::find(before.begin(), before.end(), worker.worker) != before.end();
    });
  };
  std::stable_sort(groups.begin(), groups.end(), [&](const auto& a, const auto& b) {
    const bool a_before = ran_before(a), b_before = ran_before(b);
    return a_before != b_before ? a_before : SlotsOf(a) < SlotsOf(b);
  });
  for (const std::vector<FreeSlots>& group : groups) {
    if (!home.empty() && OutputGroup(group.front()) != home) continue;
    if (auto of_rank = Place(spec, group, before)) return of_rank;
  }
  return std::nullopt;
}

absl::Status CheckSharedOutput(const JobSpec& spec, const std::vector<FreeSlots>& all) {
  if (!NeedsSharedOutput(spec) || !Place(spec, all, {}).has_value()) return absl::OkStatus();
  if (PlaceJob(spec, all, {}, "").has_value()) return absl::OkStatus();
  std::vector<std::string> sharing;
  std::vector<FreeSlots> unknown;
  for (const std::vector<FreeSlots>& group : Groups(all)) {
    if (group.front().output_id.empty()) {
      unknown.push_back(group.front());
    } else {
      sharing.push_back(Names(group));
    }
  }
  const std::string known =
      sharing.empty() ? "" : absl::StrCat(": ", absl::StrJoin(sharing, "; "), " (each semicolon: another file system)");
  const std::string not_known =
      unknown.empty() ? "" : absl::StrCat("; unknown, since its --output-root has not answered yet: ", Names(unknown));
  const std::string what = spec.kind() == PREDICT ? "its ranks write one file together" : "its ranks share checkpoints";
  return absl::FailedPreconditionError(absl::StrCat(
      "the job needs ", spec.ranks(), " slots on nodes that have one --output-root, since ", what,
      "; no nodes that are known to do have as many", known, not_known,
      "; right would be a shared file system mounted as --output-root on all of them, or a job of fewer ranks",
      unknown.empty() ? "" : ", or to try again when every --output-root answers"));
}

}  // namespace adjoin
