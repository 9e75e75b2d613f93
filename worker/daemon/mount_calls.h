// Calls functions that touch files, each on a thread of its own, so that a mounted file system that does not answer
// holds up only what touches it.
//
//   MountCalls calls({"/srv/data", "/srv/output"}, {.of_one_mount = 4, .in_all = 32, .time = absl::Seconds(60)});
//   calls.Call(
//       [path](const MountCalls::Enter& enter) {                     // may never return; owns all that it uses
//         ADJOIN_RETURN_IF_ERROR(enter(path));                       // where it will be next
//         return Touch(path);
//       },
//       [this](const absl::Status& status) { OnTouched(status); });  // in time, whatever the file system does
//
// While `of_one_mount` calls are at files of one mounted file system, no other call enters it; all of them may be
// slow, or wait for ever. Which one a file is on is told by the text of its path, so where file systems are mounted
// below a root, files of the root's own, where a link may lead to them, are counted for none (MountPoints::OfBelow).
// Any thread. The destructor waits for a `done` that runs, not for calls.
#ifndef ADJOIN_WORKER_DAEMON_MOUNT_CALLS_H_
#define ADJOIN_WORKER_DAEMON_MOUNT_CALLS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/deadline.h"
#include "base/monotonic_condition.h"
#include "worker/daemon/detached_calls.h"

namespace adjoin {

class MountCalls {
 public:
  struct Limits {
    size_t of_one_mount = 4;
    size_t in_all = 32;                       // threads
    absl::Duration time = absl::Seconds(60);  // of each call
  };
  // Call it with an absolute path before the path is touched. Errors: kResourceExhausted (too many others are at its
  // file system), kDeadlineExceeded (the call has taken too long, and nothing waits for it any more).
  using Enter = std::function<absl::Status(const std::string& path)>;
  using Done = std::function<void(const absl::Status&)>;

  // `roots`: absolute; what is touched is below them.
  MountCalls(std::vector<std::string> roots, Limits limits);
  ~MountCalls();
  MountCalls(const MountCalls&) = delete;
  MountCalls& operator=(const MountCalls&) = delete;

  // `done` gets what the call returns, or kDeadlineExceeded when its time is over, and that once, on a thread of this
  // object's; not after the destructor has returned. Returns false, and never calls it, where `in_all` calls are under
  // way already or no thread can be started. Does not wait.
  bool Call(std::function<absl::Status(const Enter&)> call, Done done);

 private:
  struct OneCall {
    Deadline late;
    Done done;                // empty: it was called at the deadline
    std::string mount_point;  // where it is; "": nowhere yet, or not known
  };
  // What calls use that outlive this object.
  struct Shared {
    std::vector<std::string> roots;
    Limits limits;
    absl::Mutex mutex;
    MonotonicCondition changed;
    std::map<uint64_t, OneCall> calls ABSL_GUARDED_BY(mutex);  // in the order of their deadlines
    uint64_t begun ABSL_GUARDED_BY(mutex) = 0;
    bool stopping ABSL_GUARDED_BY(mutex) = false;
  };

  static absl::Status EnterMount(Shared& shared, uint64_t id, const std::string& mount_point);
  // The call is over, or was never made. Returns what is to be called then; empty where that was done.
  static Done Take(Shared& shared, uint64_t id);
  void EndLateCalls();

  const std::shared_ptr<Shared> shared_;
  std::thread clock_;
  DetachedCalls threads_;  // last: its threads use the rest
};

}  // namespace adjoin

#endif  // ADJOIN_WORKER_DAEMON_MOUNT_CALLS_H_
