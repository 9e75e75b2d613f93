#include "worker/daemon/abandoned_processes.h"

#include <sys/wait.h>

#include <algorithm>
#include <utility>

namespace adjoin {

bool ReapIfDead(const ChildProcess& child) {
  constexpr idtype_t kPidFd = static_cast<idtype_t>(3);  // P_PIDFD, which older headers lack
  siginfo_t info = {};
  return waitid(kPidFd, static_cast<id_t>(child.pidfd.get()), &info, WEXITED | WNOHANG) != 0 || info.si_pid != 0;
}

void AbandonedProcesses::Add(ChildProcess child, const std::string& mount_point) {
  absl::MutexLock lock(&mutex_);
  processes_.push_back({std::move(child), mount_point});
}

std::map<std::string, size_t> AbandonedProcesses::Count() {
  absl::MutexLock lock(&mutex_);
  processes_.erase(std::remove_if(processes_.begin(), processes_.end(),
                                  [](const Process& process) { return ReapIfDead(process.child); }),
                   processes_.end());
  std::map<std::string, size_t> counts;
  for (const Process& process : processes_) ++counts[process.mount_point];
  return counts;
}

}  // namespace adjoin
