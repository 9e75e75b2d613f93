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

void AbandonedProcesses::Add(ChildProcess child) {
  absl::MutexLock lock(&mutex_);
  processes_.push_back(std::move(child));
}

size_t AbandonedProcesses::Count() {
  absl::MutexLock lock(&mutex_);
  processes_.erase(std::remove_if(processes_.begin(), processes_.end(), ReapIfDead), processes_.end());
  return processes_.size();
}

}  // namespace adjoin
