// Calls functions that may never return, as where a file server is gone, each on a thread of its own.
//
//   DetachedCalls calls(/*most=*/16);
//   ADJOIN_RETURN_IF_ERROR(calls.Call([=] { return Look(path); }, [this](absl::Status seen) { OnSeen(seen); }));
//
// The destructor waits for a `done` that runs, not for calls: a call must own all that it uses.
#ifndef ADJOIN_WORKER_DAEMON_DETACHED_CALLS_H_
#define ADJOIN_WORKER_DAEMON_DETACHED_CALLS_H_

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"

namespace adjoin {

class DetachedCalls {
 public:
  // Runs a function on a thread of its own, which nobody joins. Throws std::system_error where none can be started.
  using StartThread = std::function<void(std::function<void()>)>;

  // `start_thread`: absent: std::thread.
  explicit DetachedCalls(size_t most, StartThread start_thread = nullptr);
  ~DetachedCalls();
  DetachedCalls(const DetachedCalls&) = delete;
  DetachedCalls& operator=(const DetachedCalls&) = delete;

  // `done` is called once, on the call's thread, and not after the destructor has begun; never where this returns an
  // error. Any thread; does not wait. Errors: kResourceExhausted (`most` calls are under way already), kUnavailable (no
  // thread can be started).
  absl::Status Call(std::function<absl::Status()> call, std::function<void(const absl::Status&)> done);

 private:
  struct Shared {
    std::atomic<size_t> running{0};
    absl::Mutex mutex;  // held while a `done` runs
    bool closed ABSL_GUARDED_BY(mutex) = false;
  };

  const size_t most_;
  const StartThread start_thread_;
  const std::shared_ptr<Shared> shared_ = std::make_shared<Shared>();
};

}  // namespace adjoin

#endif  // ADJOIN_WORKER_DAEMON_DETACHED_CALLS_H_
