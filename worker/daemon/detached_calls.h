// Calls functions that may hang for ever in the kernel, as on a file server that is gone, each in a thread of its own.
//
//   DetachedCalls calls(/*most=*/16);
//   if (!calls.Call([=] { return Look(path); }, [this](absl::Status seen) { OnSeen(seen); })) ...   // too many hang
//
// The destructor waits for a `done` that runs, not for calls: what they use has to be their own.
#ifndef ADJOIN_WORKER_DAEMON_DETACHED_CALLS_H_
#define ADJOIN_WORKER_DAEMON_DETACHED_CALLS_H_

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <system_error>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"

namespace adjoin {

class DetachedCalls {
 public:
  explicit DetachedCalls(size_t most) : most_(most) {}
  ~DetachedCalls() {
    absl::MutexLock lock(&shared_->mutex);
    shared_->closed = true;
  }
  DetachedCalls(const DetachedCalls&) = delete;
  DetachedCalls& operator=(const DetachedCalls&) = delete;

  // `done` is called once, on the call's thread, and not after the destructor has begun. False: it will not be called,
  // because `most` calls are under way already or there is no thread for another. Any thread; does not wait.
  bool Call(std::function<absl::Status()> call, std::function<void(const absl::Status&)> done) {
    if (shared_->running.fetch_add(1) < most_) {
      try {
        std::thread([shared = shared_, call = std::move(call), done = std::move(done)] {
          const absl::Status status = call();
          --shared->running;
          absl::MutexLock lock(&shared->mutex);
          if (!shared->closed) done(status);
        }).detach();
        return true;
      } catch (const std::system_error&) {  // no memory, or too many threads
      }
    }
    --shared_->running;
    return false;
  }

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
