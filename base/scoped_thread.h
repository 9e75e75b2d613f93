// A thread that ends with its scope, and that waits for this end where it would sleep.
//
//   ScopedThread looks([&](ScopedThread& thread) {
//     while (!thread.EndsBefore(Deadline::After(absl::Seconds(1)))) LookAgain();
//   });
#ifndef ADJOIN_BASE_SCOPED_THREAD_H_
#define ADJOIN_BASE_SCOPED_THREAD_H_

#include <functional>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "base/deadline.h"
#include "base/monotonic_condition.h"

namespace adjoin {

class ScopedThread {
 public:
  // `body` runs on the thread, and is given this object. The destructor waits until it has returned.
  explicit ScopedThread(std::function<void(ScopedThread& thread)> body)
      : thread_([this, body = std::move(body)] { body(*this); }) {}
  ~ScopedThread() {
    {
      absl::MutexLock lock(&mutex_);
      over_ = true;
    }
    changed_.NotifyAll();
    thread_.join();
  }
  ScopedThread(const ScopedThread&) = delete;
  ScopedThread& operator=(const ScopedThread&) = delete;

  // Waits until the destructor is called; false where the deadline comes first. For `body`, which then returns soon.
  bool EndsBefore(Deadline deadline) {
    absl::MutexLock lock(&mutex_);
    return changed_.Wait(mutex_, deadline, [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return over_; });
  }

 private:
  absl::Mutex mutex_;
  MonotonicCondition changed_;
  bool over_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // last: it uses the rest
};

}  // namespace adjoin

#endif  // ADJOIN_BASE_SCOPED_THREAD_H_
