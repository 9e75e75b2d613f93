#include "worker/daemon/machine_task.h"

#include <filesystem>
#include <optional>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "base/launchers.h"
#include "base/status_macros.h"

namespace adjoin {
namespace {

// Returns the tasks on a node from Slurm's list of them, such as "2(x3),1": two on each of three nodes, one on the
// next.
std::optional<int> TasksOnNode(absl::string_view list, int node) {
  for (const absl::string_view entry : absl::StrSplit(list, ',')) {
    const std::pair<absl::string_view, absl::string_view> parts = absl::StrSplit(entry, absl::MaxSplits("(x", 1));
    absl::string_view repeats = parts.second;
    int tasks = 0, nodes = 1;
    if (!absl::SimpleAtoi(parts.first, &tasks) || tasks < 1 || tasks > kMostTasks) return std::nullopt;
    if (!repeats.empty() && (!absl::ConsumeSuffix(&repeats, ")") || !absl::SimpleAtoi(repeats, &nodes) || nodes < 1)) {
      return std::nullopt;
    }
    if (node < nodes) return tasks;
    node -= nodes;
  }
  return std::nullopt;
}

absl::StatusOr<MachineTask> SlurmTask(const char* task, const char* list, const char* node_text) {
  MachineTask found;
  found.launched = true;
  ADJOIN_ASSIGN_OR_RETURN(const int node,
                          LauncherNumber("SLURM_NODEID", node_text == nullptr ? "" : node_text, 0, kMostTasks - 1));
  const std::optional<int> tasks = TasksOnNode(list, node);
  if (!tasks.has_value()) {
    return absl::FailedPreconditionError(absl::StrCat("SLURM_STEP_TASKS_PER_NODE is \"", list,
                                                      "\", which does not tell of node ", node,
                                                      "; right would be such as 2(x3),1"));
  }
  found.tasks = *tasks;
  ADJOIN_ASSIGN_OR_RETURN(found.task, LauncherNumber("SLURM_LOCALID", task, 0, found.tasks - 1));
  return found;
}

}  // namespace

absl::StatusOr<MachineTask> MachineTaskOf(const std::function<const char*(const char*)>& variable) {
  for (const Launcher& launcher : kLaunchers) {
    if (launcher.local_tasks == nullptr) continue;
    const char* const task = variable(launcher.local_task);
    const char* const tasks = variable(launcher.local_tasks);
    if (task == nullptr || tasks == nullptr) continue;
    MachineTask found;
    found.launched = true;
    ADJOIN_ASSIGN_OR_RETURN(found.tasks, LauncherNumber(launcher.local_tasks, tasks, 1, kMostTasks));
    ADJOIN_ASSIGN_OR_RETURN(found.task, LauncherNumber(launcher.local_task, task, 0, found.tasks - 1));
    return found;
  }
  // In a batch script, outside of srun, there are no variables of a step.
  const char* const task = variable("SLURM_LOCALID");
  const char* const list = variable("SLURM_STEP_TASKS_PER_NODE");
  if (task == nullptr || list == nullptr) return MachineTask{};
  return SlurmTask(task, list, variable("SLURM_NODEID"));
}

std::string WorkerNameOf(const MachineTask& task, const std::string& host) {
  return task.tasks > 1 ? absl::StrCat(host, "-", task.task) : host;
}

std::string StateDirOf(const MachineTask& task, const std::string& host, const std::string& state_dir) {
  return task.launched ? (std::filesystem::path(state_dir) / WorkerNameOf(task, host)).string() : state_dir;
}

}  // namespace adjoin
