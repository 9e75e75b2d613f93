// Waits that also end when nobody needs what they wait for any more, such as when a client has hung up.
//
//   absl::MutexLock lock(&mutex_);
//   const WaitEnd end = WaitUnlessGone(changed_, mutex_, deadline, [context] { return context->IsCancelled(); },
//                                      [this] { return free_ > 0; });
//   if (end == WaitEnd::kGone) return absl::CancelledError("...");
//
// Any thread.
#ifndef ADJOIN_BASE_WAIT_UNLESS_GONE_H_
#define ADJOIN_BASE_WAIT_UNLESS_GONE_H_

#include <algorithm>
#include <functional>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/deadline.h"
#include "base/monotonic_condition.h"

namespace adjoin {

enum class WaitEnd {
  kHolds,    // the condition
  kGone,     // it does not hold, and `gone` said so
  kExpired,  // it does not hold, and the deadline has passed
};

// Waits until `holds`, as MonotonicCondition::Wait does; `changed` is told of each change of what it tests. `mutex` is
// held by the caller, and while `holds` runs, but not while `gone` does, which is asked once where the caller has to
// wait at all, and then each time that `between_looks` has passed.
template <typename Condition>
WaitEnd WaitUnlessGone(MonotonicCondition& changed, absl::Mutex& mutex, Deadline deadline,
                       const std::function<bool()>& gone, Condition holds,
                       absl::Duration between_looks = absl::Milliseconds(200)) ABSL_NO_THREAD_SAFETY_ANALYSIS {
  while (!holds()) {
    mutex.Unlock();
    const bool is_gone = gone();
    mutex.Lock();
    if (holds()) break;
    if (is_gone) return WaitEnd::kGone;
    if (deadline.Expired()) return WaitEnd::kExpired;
    const Deadline look = Deadline::After(between_looks);
    changed.Wait(mutex, Deadline::At(std::min(look.when(), deadline.when())), holds);
  }
  return WaitEnd::kHolds;
}

// The same for a wait that `gone` alone bounds: returns whether it holds; false where the caller is gone.
template <typename Condition>
bool WaitUntilGone(MonotonicCondition& changed, absl::Mutex& mutex, const std::function<bool()>& gone,
                   Condition holds) {
  const Deadline none = Deadline::At(Deadline::Clock::time_point::max());
  return WaitUnlessGone(changed, mutex, none, gone, holds) == WaitEnd::kHolds;
}

}  // namespace adjoin

#endif  // ADJOIN_BASE_WAIT_UNLESS_GONE_H_
