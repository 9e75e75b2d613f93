// The id of a daemon's --output-root, as far as it is known: the file server may be slow, and an automount takes its
// time. While the server does not answer, the id that was read last is returned.
//
//   KnownOutputId output([root] { return OutputId(root); });
//   std::string id = output.LookAgain(absl::Seconds(2));   // in a hello
//   std::string id = output.Get();                          // in each heartbeat: "" until the first answer
#ifndef ADJOIN_WORKER_DAEMON_KNOWN_OUTPUT_ID_H_
#define ADJOIN_WORKER_DAEMON_KNOWN_OUTPUT_ID_H_

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/monotonic_condition.h"
#include "worker/daemon/detached_calls.h"

namespace adjoin {

// Thread-safe.
class KnownOutputId {
 public:
  // `read` may never return; it is called on threads that are not joined, one at a time, and must own all that it uses.
  explicit KnownOutputId(std::function<absl::StatusOr<std::string>()> read) : read_(std::move(read)) {}

  // Reads once more, waits at most `wait` for the answer, and returns the last id that was read, "" where none was.
  std::string LookAgain(absl::Duration wait);
  // The same without waiting; reads in the background while there is none.
  std::string Get();

 private:
  void Look();

  const std::function<absl::StatusOr<std::string>()> read_;
  absl::Mutex mutex_;
  MonotonicCondition changed_;
  std::string id_ ABSL_GUARDED_BY(mutex_);
  std::string last_error_ ABSL_GUARDED_BY(mutex_);  // which is logged once
  bool looking_ ABSL_GUARDED_BY(mutex_) = false;
  DetachedCalls calls_{1};  // its destructor comes first: nothing of the above is used after it
};

}  // namespace adjoin

#endif  // ADJOIN_WORKER_DAEMON_KNOWN_OUTPUT_ID_H_
