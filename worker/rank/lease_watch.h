// Calls a function when a lease has run out: a time of CLOCK_BOOTTIME until which a process, or a daemon's ranks, may run.
//
//   LeaseWatch watch([] { _exit(71); });
//   watch.Renew(until_boottime_ns);       // the last one counts, also where it ends earlier
//
// Any thread. `over` runs on the watch's own thread, once after each Renew whose time passes; the destructor waits for it.
#ifndef ADJOIN_WORKER_RANK_LEASE_WATCH_H_
#define ADJOIN_WORKER_RANK_LEASE_WATCH_H_

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/boot_clock.h"
#include "base/deadline.h"
#include "base/monotonic_condition.h"

namespace adjoin {

class LeaseWatch {
 public:
  explicit LeaseWatch(std::function<void()> over) : over_(std::move(over)), thread_([this] { Loop(); }) {}
  ~LeaseWatch() {
    {
      absl::MutexLock lock(&mutex_);
      closing_ = true;
    }
    changed_.NotifyAll();
    thread_.join();
  }
  LeaseWatch(const LeaseWatch&) = delete;
  LeaseWatch& operator=(const LeaseWatch&) = delete;

  void Renew(int64_t until_boottime_ns) {
    {
      absl::MutexLock lock(&mutex_);
      until_ = until_boottime_ns;
    }
    changed_.NotifyAll();
  }

 private:
  void Loop() {
    mutex_.Lock();
    while (!closing_) {
      // Waits do not count the time that the machine sleeps, so no wait is long.
      absl::Duration wait = absl::Seconds(1);
      std::optional<int64_t> seen = until_;
      if (seen.has_value()) wait = std::min(wait, absl::Nanoseconds(*seen - BootTimeNanos()));
      if (wait > absl::ZeroDuration()) {
        changed_.Wait(mutex_, Deadline::After(wait),
                      [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return closing_ || until_ != seen; });
        continue;
      }
      until_.reset();
      mutex_.Unlock();
      over_();
      mutex_.Lock();
    }
    mutex_.Unlock();
  }

  const std::function<void()> over_;
  absl::Mutex mutex_;
  MonotonicCondition changed_;
  std::optional<int64_t> until_ ABSL_GUARDED_BY(mutex_);
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // last: it uses the rest
};

}  // namespace adjoin

#endif  // ADJOIN_WORKER_RANK_LEASE_WATCH_H_
