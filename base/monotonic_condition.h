// A condition variable for absl::Mutex whose waits end by the monotonic clock. absl's own timed waits follow the wall
// clock: when that is set back by an hour, they last an hour longer.
//
//   absl::MutexLock lock(&mutex_);
//   if (!changed_.Wait(mutex_, deadline, [this] { return done_; })) return absl::DeadlineExceededError("...");
//
//   { absl::MutexLock lock(&mutex_);  done_ = true; }
//   changed_.NotifyAll();                              // after each change of what a Wait tests
#ifndef ADJOIN_BASE_MONOTONIC_CONDITION_H_
#define ADJOIN_BASE_MONOTONIC_CONDITION_H_

#include <condition_variable>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "base/deadline.h"

namespace adjoin {

class MonotonicCondition {
 public:
  // `mutex` is held by the caller, and while `holds` runs. Returns whether it holds; false only after the deadline.
  template <typename Condition>
  bool Wait(absl::Mutex& mutex, Deadline deadline, Condition holds) ABSL_NO_THREAD_SAFETY_ANALYSIS {
    Lockable lockable{mutex};
    return changed_.wait_until(lockable, deadline.when(), holds);
  }
  void NotifyAll() { changed_.notify_all(); }

 private:
  struct Lockable {
    void lock() ABSL_NO_THREAD_SAFETY_ANALYSIS { mutex.Lock(); }
    void unlock() ABSL_NO_THREAD_SAFETY_ANALYSIS { mutex.Unlock(); }
    absl::Mutex& mutex;
  };
  std::condition_variable_any changed_;
};

}  // namespace adjoin

#endif  // ADJOIN_BASE_MONOTONIC_CONDITION_H_
