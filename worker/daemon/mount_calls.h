// Calls functions that touch files, each on a thread of its own, so that a mounted file system that does not answer
// holds up only what touches it.
//
//   MountCalls calls({"/srv/data", "/srv/output"},
//                    {.of_one_mount = 4, .waiting_for_one = 12, .in_all = 64, .time = absl::Seconds(60)});
//   calls.Call(
//       [path](const MountCalls::Enter& enter) {                     // may never return; owns all that it uses
//         ADJOIN_RETURN_IF_ERROR(enter(path));                       // where it will be next
//         return Touch(path);
//       },
//       [this](const absl::Status& status) { OnTouched(status); });  // in time, whatever the file system does
//
// While `of_one_mount` calls are at files of one mounted file system, others wait until one of them leaves it; all of
// them may be slow, or wait for ever. Which one a file is on is told by the text of its path. Where other file systems
// are mounted below a root, a path on the root's own file system may be a link to one of them; such paths are not
// counted (MountPoints::OfBelow).
// Any thread. The destructor waits for a `done` that runs, not for calls.
#ifndef ADJOIN_WORKER_DAEMON_MOUNT_CALLS_H_
#define ADJOIN_WORKER_DAEMON_MOUNT_CALLS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
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
    size_t waiting_for_one = 12;              // mount, besides; a call that would be one more gets an error
    size_t in_all = 64;                       // threads, those that wait included
    size_t waiting_for_thread = 0;            // besides: each begins when one of those has ended, the oldest first
    absl::Duration time = absl::Seconds(60);  // of each call, with its waits
  };
  // Call it with an absolute path before the path is touched. Waits until there is room at its file system; a call
  // keeps its room until it enters another one. Errors: kDeadlineExceeded (the file system does not answer: too many
  // others wait for it already, or the call has taken too long or was dropped, and nothing waits for it any more).
  using Enter = std::function<absl::Status(const std::string& path)>;
  using Done = std::function<void(const absl::Status&)>;

  // `roots`: absolute; what is touched is below them. `start_thread`: as DetachedCalls'.
  MountCalls(std::vector<std::string> roots, Limits limits, DetachedCalls::StartThread start_thread = nullptr);
  ~MountCalls();
  MountCalls(const MountCalls&) = delete;
  MountCalls& operator=(const MountCalls&) = delete;

  // Returns the call's id. `done` gets what the call returns, or kDeadlineExceeded when its time is over (kAborted:
  // no thread could be started for it, although fewer than `in_all` calls were under way), and that once, on a thread
  // of this object's; not after the destructor has returned, and never where this returns an error. Does not wait.
  // `time`: of this call, from now on; absent: that of the limits. Errors: kResourceExhausted (`in_all` calls are under
  // way already, and `waiting_for_thread` wait), kUnavailable (no thread can be started now).
  absl::StatusOr<uint64_t> Call(std::function<absl::Status(const Enter&)> call, Done done,
                                std::optional<absl::Duration> time = {});
  // Nothing waits for the call any more, and its `done` is called only where that has begun. A call that waits for a
  // thread never begins; one that is under way ends where it enters its next path. No-op where it has ended. Does not
  // wait.
  void Drop(uint64_t id);

 private:
  struct OneCall {
    Deadline late;
    absl::Duration time;  // until then, from its beginning
    Done done;            // empty: it was called at the deadline, or the call was dropped
    std::shared_ptr<const std::function<absl::Status(const Enter&)>> call = {};  // while it waits for a thread
    std::string mount_point = {};  // where it is; "": nowhere yet, or not known
    std::string waits_for = {};    // the mount point where it waits for room; "": none
  };
  // What calls use that outlive this object.
  struct Shared {
    std::vector<std::string> roots;
    Limits limits;
    absl::Mutex mutex;
    MonotonicCondition changed;
    std::map<uint64_t, OneCall> calls ABSL_GUARDED_BY(mutex);
    uint64_t begun ABSL_GUARDED_BY(mutex) = 0;
    // Calls wait although there is room for them: no thread could be started. It is tried again then.
    std::optional<Deadline> again ABSL_GUARDED_BY(mutex);
    bool stopping ABSL_GUARDED_BY(mutex) = false;
  };

  static absl::Status EnterMount(Shared& shared, uint64_t id, const std::string& mount_point);
  static size_t CountWaiting(const Shared& shared) ABSL_EXCLUSIVE_LOCKS_REQUIRED(shared.mutex);  // for a thread
  static size_t CountAt(const Shared& shared, const std::string& mount_point)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(shared.mutex);
  // Why a call ends at its deadline.
  static absl::Status Late(const Shared& shared, const OneCall& call) ABSL_EXCLUSIVE_LOCKS_REQUIRED(shared.mutex);
  // The call whose deadline comes first, of those whose `done` was not called; null: there is none.
  static OneCall* FirstToBeLate(Shared& shared) ABSL_EXCLUSIVE_LOCKS_REQUIRED(shared.mutex);
  // When the clock has something to do next.
  static Deadline Next(Shared& shared) ABSL_EXCLUSIVE_LOCKS_REQUIRED(shared.mutex);
  // Begins calls that wait for a thread, the oldest first, as long as there are threads. Sets `again`.
  void BeginWaiting() ABSL_EXCLUSIVE_LOCKS_REQUIRED(shared_->mutex);
  // The call is over: others may have its thread. Returns what is to be called then; empty where that was done.
  Done Take(uint64_t id);
  void EndLateCalls();

  const std::shared_ptr<Shared> shared_;
  std::thread clock_;
  DetachedCalls threads_;  // last: its threads use the rest
};

}  // namespace adjoin

#endif  // ADJOIN_WORKER_DAEMON_MOUNT_CALLS_H_
