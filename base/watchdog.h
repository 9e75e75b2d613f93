// Calls a function when its scope lasts too long: a deadline for a call that has none of its own.
//
//   Watchdog late(absl::Seconds(10), [&] { context.TryCancel(); });
//   if (!stream->Read(&message)) return ...;                         // gRPC's synchronous streams have no deadline
#ifndef ADJOIN_BASE_WATCHDOG_H_
#define ADJOIN_BASE_WATCHDOG_H_

#include <functional>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/deadline.h"
#include "base/monotonic_condition.h"

namespace adjoin {

class Watchdog {
 public:
  // `late` runs on a thread of the watchdog's own, at most once, and never after the destructor has returned.
  Watchdog(absl::Duration limit, std::function<void()> late)
      : thread_([this, deadline = Deadline::After(limit), late = std::move(late)] {
          bool in_time;
          {
            absl::MutexLock lock(&mutex_);
            in_time = changed_.Wait(mutex_, deadline, [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return over_; });
          }
          if (!in_time) late();
        }) {}
  ~Watchdog() {
    {
      absl::MutexLock lock(&mutex_);
      over_ = true;
    }
    changed_.NotifyAll();
    thread_.join();
  }
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

 private:
  absl::Mutex mutex_;
  MonotonicCondition changed_;
  bool over_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // last: it uses the rest
};

}  // namespace adjoin

#endif  // ADJOIN_BASE_WATCHDOG_H_
