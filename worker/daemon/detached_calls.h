// Calls functions that may never return, as where a file server is gone, each on a thread of its own.
//
//   DetachedCalls calls(/*most=*/16);
//   if (!calls.Call([=] { return Look(path); }, [this](absl::Status seen) { OnSeen(seen); })) ...   // too many hang
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
  explicit DetachedCalls(size_t most) : most_(most) {}
  ~DetachedCalls();
  DetachedCalls(const DetachedCalls&) = delete;
  DetachedCalls& operator=(const DetachedCalls&) = delete;

  // `done` is called once, on the call's thread, and not after the destructor has begun. Returns false, and never
  // calls it, where `most` calls are under way already or no thread can be started. Any thread; does not wait.
  bool Call(std::function<absl::Status()> call, std::function<void(const absl::Status&)> done);

 private:
  struct Shared {
    std::atomic<size_t> running{0};
    absl::Mutex mutex;  // held while a `done` runs
    bool closed ABSL_GUARDED_BY(mutex) = false;
  };

  const size_t most_;
  const std::shared_ptr<Shared> shared_ = std::make_shared<Shared>();
};

}  // namespace adjoin

#endif  // ADJOIN_WORKER_DAEMON_DETACHED_CALLS_H_
