// The id of a daemon's --output-root, as far as it is known: the file server may be slow, an automount takes its time, and what
// was known stays known while nobody answers.
//
//   KnownOutputId output([root] { return OutputId(root); });
//   std::string id = output.LookAgain(absl::Seconds(2));   // in a hello
//   std::string id = output.Get();                          // in each heartbeat: "" as long as nobody has answered
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
  // `read` may hang for ever; it is called in threads that nobody waits for, one at a time, and what it uses is its own.
  explicit KnownOutputId(std::function<absl::StatusOr<std::string>()> read) : read_(std::move(read)) {}

  // Reads once more and waits at most `wait` for the answer, then goes on without; the last id that was read, "" where none was.
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
