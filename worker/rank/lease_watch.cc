#include "worker/rank/lease_watch.h"

#include <algorithm>
#include <utility>

#include "absl/time/time.h"
#include "base/boot_clock.h"
#include "base/deadline.h"

namespace adjoin {

LeaseWatch::LeaseWatch(std::function<void()> over) : over_(std::move(over)), thread_([this] { Loop(); }) {}

LeaseWatch::~LeaseWatch() {
  {
    absl::MutexLock lock(&mutex_);
    closing_ = true;
  }
  changed_.NotifyAll();
  thread_.join();
}

void LeaseWatch::Renew(int64_t until_boottime_ns) {
  {
    absl::MutexLock lock(&mutex_);
    until_ = until_boottime_ns;
  }
  changed_.NotifyAll();
}

void LeaseWatch::Loop() {
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

}  // namespace adjoin
