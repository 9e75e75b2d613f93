// Checks jobs' data files in processes of their own, several at once: files and file systems can hold up, crash or
// break nothing but their own check.
//
//   DataChecker checker({.data_root = "/srv/data", .output_root = "/srv/output", .binary = "/proc/self/exe"},
//                       [&](WorkerMessage message) { link.Send(std::move(message)); });
//   checker.Check(probe_data);                    // a ProbeResult is sent, at the latest a moment after its limit
//   checker.Cancel(probe_data.request_id());      // nobody waits for it any more
//
// A check that does not end within its limit is killed; its result names the file at which it stood, and is
// `undecided`: on another node the file may answer. A process that does not even die (it waits in the kernel) is left
// behind and reaped later; while most_abandoned of them are left that wait for one file system, no file there is
// checked. Processes are used again. Any thread; the destructor kills the checks in progress.
#ifndef ADJOIN_WORKER_DAEMON_DATA_CHECKER_H_
#define ADJOIN_WORKER_DAEMON_DATA_CHECKER_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/deadline.h"
#include "base/unique_fd.h"
#include "proto/coordinator.pb.h"
#include "worker/daemon/abandoned_processes.h"
#include "worker/daemon/checker_process.h"
#include "worker/daemon/mount_points.h"
#include "worker/daemon/process_spawner.h"

namespace adjoin {

struct DataCheckerSettings {
  std::string data_root, output_root;        // absolute
  std::string binary;                        // a program that begins as data_check_child.h tells
  std::optional<User> user;                  // whom the ranks run as, so that what they cannot read is found early
  size_t at_once = 4;                        // checks
  absl::Duration limit = absl::Seconds(30);  // of each; a request's own counts where it is shorter
  size_t most_abandoned = 8;                 // of one mounted file system
  size_t most_abandoned_in_all = 64;
  size_t most_waiting = 256;  // requests beyond those that are checked; more are undecided at once
};

class DataChecker {
 public:
  // `send` is called on the checker's threads, and by Check.
  DataChecker(DataCheckerSettings settings, std::function<void(WorkerMessage)> send);
  ~DataChecker();
  DataChecker(const DataChecker&) = delete;
  DataChecker& operator=(const DataChecker&) = delete;

  // Returns at once. The time that the request may take counts from now.
  void Check(const ProbeData& request);
  // No result is sent, unless it is on its way.
  void Cancel(const std::string& request_id);

 private:
  struct Request {
    ProbeData data;
    absl::Duration limit;
    Deadline deadline;
  };
  // One check at a time.
  struct Slot {
    std::string request_id;                   // under way; guarded by mutex_
    UniqueFd cancel;                          // an event
    std::unique_ptr<CheckerProcess> process;  // the thread's own, as what follows
    int checks = 0;                           // that it has done
    std::thread thread;
  };

  void Loop(Slot& slot);
  bool Take(Slot& slot, Request& request);
  // Absent where the request was cancelled.
  std::optional<ProbeResult> Answer(Slot& slot, Request& request);
  std::optional<ProbeResult> AskProcess(Slot& slot, Request& request);
  // MountPoints::OfBelow the two roots.
  std::string MountPointOf(const MountPoints& mounts, const std::string& path) const;
  // Why the request's files are not checked now; "" where they are.
  std::string WhyNotNow(const ProbeData& request);
  void Send(ProbeResult result);

  const DataCheckerSettings settings_;
  const std::function<void(WorkerMessage)> send_;
  AbandonedProcesses abandoned_;
  absl::Mutex mutex_;
  std::deque<Request> requests_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::list<Slot> slots_;  // last: their threads use the rest
};

}  // namespace adjoin

#endif  // ADJOIN_WORKER_DAEMON_DATA_CHECKER_H_
