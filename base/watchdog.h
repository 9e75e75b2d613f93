// Calls a function when its scope lasts too long: a deadline for a call that has none of its own.
//
//   Watchdog late(absl::Seconds(10), [&] { context.TryCancel(); });
//   if (!stream->Read(&message)) return ...;                         // gRPC's synchronous streams wait for ever
#ifndef ADJOIN_BASE_WATCHDOG_H_
#define ADJOIN_BASE_WATCHDOG_H_

#include <functional>
#include <thread>
#include <utility>

#include "absl/synchronization/notification.h"
#include "absl/time/time.h"

namespace adjoin {

class Watchdog {
 public:
  // `late` runs on a thread of the watchdog's own, at most once, and never after the destructor has returned.
  Watchdog(absl::Duration limit, std::function<void()> late)
      : thread_([this, limit, late = std::move(late)] {
          if (!over_.WaitForNotificationWithTimeout(limit)) late();
        }) {}
  ~Watchdog() {
    over_.Notify();
    thread_.join();
  }
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

 private:
  absl::Notification over_;
  std::thread thread_;  // last: it uses the rest
};

}  // namespace adjoin

#endif  // ADJOIN_BASE_WATCHDOG_H_
