// Which task of a launcher's this program is, where mpirun or srun starts it several times on one machine.
//
//   ADJOIN_ASSIGN_OR_RETURN(const MachineTask task, MachineTaskOf(getenv));
//   if (task.tasks > 1) ... the share of one task of the machine's memory ...
//   flags.state_dir = StateDirOf(task, host, flags.state_dir);
#ifndef ADJOIN_WORKER_DAEMON_MACHINE_TASK_H_
#define ADJOIN_WORKER_DAEMON_MACHINE_TASK_H_

#include <functional>
#include <string>

#include "absl/status/statusor.h"

namespace adjoin {

struct MachineTask {
  int task = 0;   // from 0, of those on this machine
  int tasks = 1;  // on this machine; 1 also without a launcher
  bool launched = false;
};

// From what Open MPI, MVAPICH, MPICH (and others with its launcher) and Slurm tell. `variable`: as getenv. Errors:
// kFailedPrecondition where the environment contradicts itself.
absl::StatusOr<MachineTask> MachineTaskOf(const std::function<const char*(const char*)>& variable);

// The name of the worker that is this task of `host`: the host's, with the task's number where there are several.
std::string WorkerNameOf(const MachineTask& task, const std::string& host);

// The folder of that worker's state: `state_dir` itself, or, under a launcher, one below it with the worker's name.
// A launcher gives all machines the same `state_dir`, which may be on a disk that they share.
std::string StateDirOf(const MachineTask& task, const std::string& host, const std::string& state_dir);

}  // namespace adjoin

#endif  // ADJOIN_WORKER_DAEMON_MACHINE_TASK_H_
