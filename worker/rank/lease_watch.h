// Calls a function when a lease has run out: a time of CLOCK_BOOTTIME until which a process, or a daemon's ranks, may
// run.
//
//   LeaseWatch watch([] { _exit(71); });
//   watch.Renew(until_boottime_ns);       // replaces the lease before it, also by one that ends earlier
//
// Any thread. `over` runs on the watch's own thread, once after each Renew whose time passes; the destructor waits for
// it.
#ifndef ADJOIN_WORKER_RANK_LEASE_WATCH_H_
#define ADJOIN_WORKER_RANK_LEASE_WATCH_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "base/monotonic_condition.h"

namespace adjoin {

class LeaseWatch {
 public:
  explicit LeaseWatch(std::function<void()> over);
  ~LeaseWatch();
  LeaseWatch(const LeaseWatch&) = delete;
  LeaseWatch& operator=(const LeaseWatch&) = delete;

  void Renew(int64_t until_boottime_ns);

 private:
  void Loop();

  const std::function<void()> over_;
  absl::Mutex mutex_;
  MonotonicCondition changed_;
  std::optional<int64_t> until_ ABSL_GUARDED_BY(mutex_);
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // last: it uses the rest
};

}  // namespace adjoin

#endif  // ADJOIN_WORKER_RANK_LEASE_WATCH_H_
