// Processes that were killed and do not die: they wait in the kernel for a file system that does not answer.
//
//   AbandonedProcesses abandoned;
//   abandoned.Add(std::move(child));               // SIGKILL was sent
//   if (abandoned.Count() > 8) ...                 // those that have died meanwhile are reaped, and do not count
//
// Any thread; waits for nothing. What is left when it is destroyed is left to init.
#ifndef ADJOIN_WORKER_DAEMON_ABANDONED_PROCESSES_H_
#define ADJOIN_WORKER_DAEMON_ABANDONED_PROCESSES_H_

#include <cstddef>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "worker/daemon/process_spawner.h"

namespace adjoin {

// Returns true where the process had died, and is reaped now.
bool ReapIfDead(const ChildProcess& child);

class AbandonedProcesses {
 public:
  void Add(ChildProcess child);
  size_t Count();

 private:
  absl::Mutex mutex_;
  std::vector<ChildProcess> processes_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace adjoin

#endif  // ADJOIN_WORKER_DAEMON_ABANDONED_PROCESSES_H_
