// A point on the monotonic clock after which a wait gives up. There is no infinite deadline: every wait ends.
//
//   Deadline deadline = Deadline::After(absl::Seconds(30));
//   while (!done()) if (deadline.Expired()) return absl::DeadlineExceededError("...");
#ifndef ADJOIN_BASE_DEADLINE_H_
#define ADJOIN_BASE_DEADLINE_H_

#include <algorithm>
#include <chrono>

#include "absl/time/time.h"

namespace adjoin {

class Deadline {
 public:
  using Clock = std::chrono::steady_clock;

  static Deadline After(absl::Duration timeout) { return Deadline(Clock::now() + absl::ToChronoNanoseconds(timeout)); }
  static Deadline At(Clock::time_point when) { return Deadline(when); }

  bool Expired() const { return Clock::now() >= when_; }
  // Never negative.
  absl::Duration Remaining() const { return std::max(absl::ZeroDuration(), absl::FromChrono(when_ - Clock::now())); }
  Clock::time_point when() const { return when_; }

 private:
  explicit Deadline(Clock::time_point when) : when_(when) {}
  Clock::time_point when_;
};

}  // namespace adjoin

#endif  // ADJOIN_BASE_DEADLINE_H_
