#include "coordinator/placement/shared_output.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "coordinator/placement/worker_group.h"

namespace adjoin {

bool NeedsSharedOutput(const JobSpec& spec) { return spec.kind() == PREDICT || KeepsCheckpoints(spec); }

bool KeepsCheckpoints(const JobSpec& spec) {
  return !spec.checkpoint().dir().empty() || !spec.checkpoint().resume_from().empty();
}

// No output_id has a blank.
std::string OutputRoot::ToString() const { return absl::StrCat(of_one ? "only " : "", name); }

OutputRoot OutputRootOf(const FreeSlots& worker) {
  const bool of_one = worker.output_id.empty();
  return {of_one, of_one ? worker.worker : worker.output_id};
}

std::vector<std::vector<FreeSlots>> GroupsByOutputRoot(const std::vector<FreeSlots>& workers) {
  std::map<OutputRoot, std::vector<FreeSlots>> by_root;
  for (const FreeSlots& worker : workers) by_root[OutputRootOf(worker)].push_back(worker);
  std::vector<std::vector<FreeSlots>> groups;
  for (auto& [root, members] : by_root) groups.push_back(std::move(members));
  return groups;
}

bool ShareAll(const std::vector<FreeSlots>& workers) {
  return std::all_of(workers.begin(), workers.end(), [&](const FreeSlots& worker) {
    return !worker.output_id.empty() && worker.output_id == workers.front().output_id;
  });
}

bool SharedRoom::Add(const FreeSlots& worker) {
  const int64_t room = RoomFor(worker, spec_.resources());
  return (worker.output_id.empty() ? room : room_[worker.output_id] += room) >= spec_.ranks();
}

absl::Status CheckSharedOutput(const JobSpec& spec, const std::vector<FreeSlots>& all) {
  if (!NeedsSharedOutput(spec) || !Suffice(all, spec)) return absl::OkStatus();
  const std::vector<std::vector<FreeSlots>> groups = GroupsByOutputRoot(all);
  if (std::any_of(groups.begin(), groups.end(), [&](const auto& group) { return Suffice(group, spec); })) {
    return absl::OkStatus();
  }
  const bool with_gpus = spec.resources().gpus() > 0;
  std::vector<std::string> sharing;
  std::vector<FreeSlots> unknown;
  for (const std::vector<FreeSlots>& group : groups) {
    if (group.front().output_id.empty()) {
      unknown.push_back(group.front());
    } else {
      sharing.push_back(NamesWithSlots(group, with_gpus));
    }
  }
  const std::string known =
      sharing.empty() ? "" : absl::StrCat(": ", absl::StrJoin(sharing, "; "), " (each semicolon: another file system)");
  const std::string not_known = unknown.empty()
                                    ? ""
                                    : absl::StrCat("; unknown, since its --output-root has not answered yet: ",
                                                   NamesWithSlots(unknown, with_gpus));
  const std::string what = spec.kind() == PREDICT ? "its ranks write one file together" : "its ranks share checkpoints";
  return absl::FailedPreconditionError(absl::StrCat(
      "the job needs ", spec.ranks(), with_gpus ? " slots with a GPU each" : " slots",
      " on nodes that have one --output-root, since ", what, "; no nodes that are known to do have as many", known,
      not_known,
      "; right would be a shared file system mounted as --output-root on all of them, or a job of fewer ranks",
      unknown.empty() ? "" : ", or to try again when every --output-root answers"));
}

}  // namespace adjoin
