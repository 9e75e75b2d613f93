// Processes that were killed and do not die: they wait in the kernel for a file system that does not answer.
//
//   AbandonedProcesses abandoned;
//   abandoned.Add(std::move(child), "/srv/data");      // SIGKILL was sent; its file system is mounted there
//   if (abandoned.Count()["/srv/data"] > 8) ...        // those that have died meanwhile are reaped, and do not count
//
// Any thread; waits for nothing. What is left when it is destroyed is left to init.
#ifndef ADJOIN_WORKER_DAEMON_ABANDONED_PROCESSES_H_
#define ADJOIN_WORKER_DAEMON_ABANDONED_PROCESSES_H_

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "worker/daemon/process_spawner.h"

namespace adjoin {

// Returns true where the process had died, and is reaped now.
bool ReapIfDead(const ChildProcess& child);

class AbandonedProcesses {
 public:
  // `mount_point`: of the file system for which it waits; "": not known.
  void Add(ChildProcess child, const std::string& mount_point);
  // Returns how many there are, by mount point.
  std::map<std::string, size_t> Count();

 private:
  struct Process {
    ChildProcess child;
    std::string mount_point;
  };
  absl::Mutex mutex_;
  std::vector<Process> processes_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace adjoin

#endif  // ADJOIN_WORKER_DAEMON_ABANDONED_PROCESSES_H_
