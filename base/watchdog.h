// Calls a function when its scope lasts too long: a deadline for a call that has none of its own.
//
//   Watchdog late(absl::Seconds(10), [&] { context.TryCancel(); });
//   if (!stream->Read(&message)) return ...;                         // gRPC's synchronous streams have no deadline
#ifndef ADJOIN_BASE_WATCHDOG_H_
#define ADJOIN_BASE_WATCHDOG_H_

#include <functional>
#include <utility>

#include "absl/time/time.h"
#include "base/deadline.h"
#include "base/scoped_thread.h"

namespace adjoin {

class Watchdog {
 public:
  // `late` runs on a thread of the watchdog's own, at most once, and never after the destructor has returned.
  Watchdog(absl::Duration limit, std::function<void()> late)
      : thread_([deadline = Deadline::After(limit), late = std::move(late)](ScopedThread& thread) {
          if (!thread.EndsBefore(deadline)) late();
        }) {}

 private:
  ScopedThread thread_;
};

}  // namespace adjoin

#endif  // ADJOIN_BASE_WATCHDOG_H_
