#include "coordinator/placement/rank_programs.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "coordinator/placement/worker_group.h"
#include "proto/unread_program.h"

namespace adjoin {

ProgramKey ProgramOf(const FreeSlots& worker) {
  return {worker.program, worker.program == kUnreadProgram ? worker.worker : ""};
}

std::vector<std::vector<FreeSlots>> GroupsByProgram(const std::vector<FreeSlots>& workers) {
  std::map<ProgramKey, std::vector<FreeSlots>> by_program;
  for (const FreeSlots& worker : workers) by_program[ProgramOf(worker)].push_back(worker);
  std::vector<std::vector<FreeSlots>> groups;
  for (auto& [program, members] : by_program) groups.push_back(std::move(members));
  return groups;
}

bool HaveOneProgram(const std::vector<FreeSlots>& workers) {
  if (workers.size() < 2) return true;
  return std::all_of(workers.begin(), workers.end(), [&](const FreeSlots& worker) {
    return worker.program == workers.front().program && worker.program != kUnreadProgram;
  });
}

std::string ProgramsReason(const JobSpec& spec, const std::vector<FreeSlots>& all) {
  if (HaveOneProgram(all) || !Suffice(all, spec)) return "";
  const std::vector<std::vector<FreeSlots>> groups = GroupsByProgram(all);
  if (std::any_of(groups.begin(), groups.end(), [&](const auto& group) { return Suffice(group, spec); })) return "";
  const bool with_gpus = spec.resources().gpus() > 0;
  const std::string names = absl::StrJoin(groups, "; ", [&](std::string* out, const std::vector<FreeSlots>& group) {
    absl::StrAppend(out, NamesWithSlots(group, with_gpus));
  });
  return absl::StrCat(
      "all its ranks run one adjoin-rank program, and no nodes that have the same one have as many slots: ", names,
      " (each semicolon: another program); it starts when more of them have the same release");
}

}  // namespace adjoin
