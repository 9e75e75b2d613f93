// What mpirun and srun tell a program of theirs, in its environment.
//
//   for (const Launcher& launcher : kLaunchers) {
//     if (const char* task = getenv(launcher.task); task != nullptr) {
//       ADJOIN_ASSIGN_OR_RETURN(int number, LauncherNumber(launcher.task, task, 0, kMostTasks - 1));
//     }
//   }
#ifndef ADJOIN_BASE_LAUNCHERS_H_
#define ADJOIN_BASE_LAUNCHERS_H_

#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace adjoin {

// Names of variables; null where the launcher has none.
struct Launcher {
  const char* task;        // which of all tasks this is, from 0
  const char* tasks;       // how many they are
  const char* local_task;  // likewise of those on this machine
  const char* local_tasks;
  const char* nodes;  // on how many machines they are
};

// MPICH's mpirun may use srun for processes of its own, so its variables come before Slurm's.
inline constexpr Launcher kLaunchers[] = {
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE",
     nullptr},
    {"MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_LOCAL_RANK", "MV2_COMM_WORLD_LOCAL_SIZE", nullptr},
    {"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", "SLURM_STEP_NUM_NODES"},
    // In a batch script, outside of srun, there are no variables of a step. SLURM_STEP_TASKS_PER_NODE is a list.
    {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", nullptr, "SLURM_STEP_NUM_NODES"},
};

inline constexpr int kMostTasks = 100000;

// Reads the number in a variable. Errors: kFailedPrecondition, which names it: none from `least` to `most`.
inline absl::StatusOr<int> LauncherNumber(absl::string_view name, absl::string_view text, int least, int most) {
  int number = 0;
  if (absl::SimpleAtoi(text, &number) && number >= least && number <= most) return number;
  return absl::FailedPreconditionError(
      absl::StrCat(name, " is \"", text, "\"; right would be a number from ", least, " to ", most));
}

}  // namespace adjoin

#endif  // ADJOIN_BASE_LAUNCHERS_H_
