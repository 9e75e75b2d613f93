// What `adjoin run` is where mpirun or srun has started it, once or several times on one machine: task 0 runs the job,
// the others wait for it and end with its exit code.
//
//   ADJOIN_ASSIGN_OR_RETURN(const Launch launch, LaunchOf(getenv));
//   if (launch.task > 0) return WaitForFirstTask(launch);
//   ADJOIN_ASSIGN_OR_RETURN(auto first, FirstTask::Start(launch));     // null where there is one task
//   LeaveLauncher(launch);
//   ... run the job on launch.tasks ranks ...
//   if (first != nullptr) first->Finish(code);
#ifndef ADJOIN_CLI_LAUNCH_H_
#define ADJOIN_CLI_LAUNCH_H_

#include <sched.h>
#include <sys/types.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/deadline.h"
#include "base/unique_fd.h"

namespace adjoin {

struct Launch {
  std::string variable;  // of the environment, that tells the task: "OMPI_COMM_WORLD_RANK"; empty: no launcher
  int task = 0;
  int tasks = 1;
  std::string run;  // what the launcher calls this launch, where it tells
};

// `variable`: as getenv. Errors: kFailedPrecondition where the tasks are on several machines, or the environment
// contradicts itself.
absl::StatusOr<Launch> LaunchOf(const std::function<const char*(const char*)>& variable);

// The processors that all tasks together have here: those of `launcher`, the process that started them. Slurm's daemon
// has all of the machine, also where the launch has not: then those that Slurm says it binds the tasks to, and else
// this task's own. `variable`: as getenv.
cpu_set_t ProcessorsOf(const Launch& launch, const std::function<const char*(const char*)>& variable, pid_t launcher);

// Ranks of the job are no processes of the launcher: takes its variables out of the environment, so that no library of
// theirs looks for it, and lets this process use ProcessorsOf the launch, not only those of one task.
void LeaveLauncher(const Launch& launch);

// The abstract socket on which the tasks meet, without the 0 before its name: of this user, this PID namespace, the
// process that started all tasks, and the launch.
std::string SocketName(const Launch& launch);

// The first task's end of what the others wait for: a name on this machine which ends with the process. Everybody can
// connect to it, so both ends look at the user of the other.
class FirstTask {
 public:
  // Null where there are no others. Errors: kUnavailable.
  static absl::StatusOr<std::unique_ptr<FirstTask>> Start(const Launch& launch);
  // Tells the others. Waits for those that have not come yet, until `late` after Start.
  void Finish(int code, absl::Duration late = absl::Seconds(10));

 private:
  FirstTask(UniqueFd fd, int others) : fd_(std::move(fd)), others_(others) {}

  const UniqueFd fd_;
  const int others_;
  const Deadline::Clock::time_point started_ = Deadline::Clock::now();
};

// Waits for `start` until the first task is there, then for its end, and returns its exit code: 1 where it was killed.
// Errors: kDeadlineExceeded where it does not come; kPermissionDenied where another user has its name.
absl::StatusOr<int> WaitForFirstTask(const Launch& launch, absl::Duration start = absl::Seconds(60));

}  // namespace adjoin

#endif  // ADJOIN_CLI_LAUNCH_H_
