// Which task of a launcher's this program is, where mpirun or srun starts it several times on one machine.
//
//   ADJOIN_ASSIGN_OR_RETURN(const MachineTask task, MachineTaskOf(getenv));
//   if (task.tasks > 1) ... the share of one task of the machine's memory ...
#ifndef ADJOIN_WORKER_DAEMON_MACHINE_TASK_H_
#define ADJOIN_WORKER_DAEMON_MACHINE_TASK_H_

#include <functional>

#include "absl/status/statusor.h"

namespace adjoin {

struct MachineTask {
  int task = 0;   // from 0, of those on this machine
  int tasks = 1;  // on this machine; 1 also without a launcher
};

// From what Open MPI, MVAPICH, MPICH (and others with its launcher) and Slurm tell. `variable`: as getenv. Errors:
// kFailedPrecondition where the environment contradicts itself.
absl::StatusOr<MachineTask> MachineTaskOf(const std::function<const char*(const char*)>& variable);

}  // namespace adjoin

#endif  // ADJOIN_WORKER_DAEMON_MACHINE_TASK_H_
