// A clock for ages of days of what outlives its process: a key, a folder. Wall clocks are set, and steady ones begin
// anew with their machine, so this one follows neither alone: it moves with the steady clock, and over a restart by the
// difference of the wall clock, but never backwards and by no more than kMostOverRestart.
//
//   AgeClock ages(wall_clock, steady_clock, stored_mark);        // absent where no process before this one stored any
//   const absl::Time used = ages.Now();                          // stored beside the key
//   if (ages.Now() - used > absl::Hours(24 * 30)) ...            // also in a process that was started later
//   Store(ages.Mark());                                          // now and then: what comes after it may be lost
//
// Its times are to be compared with each other only. A wall clock that was set makes nothing older by more than
// kMostOverRestart, once for each restart over which it was set; what a restart took beyond that is not counted, nor is
// the time while the machine slept. Any thread, where the clocks allow it.
#ifndef ADJOIN_BASE_AGE_CLOCK_H_
#define ADJOIN_BASE_AGE_CLOCK_H_

#include <algorithm>
#include <functional>
#include <optional>
#include <utility>

#include "absl/time/time.h"

namespace adjoin {

// What the next process goes on from.
struct AgeMark {
  absl::Time age;   // by the AgeClock
  absl::Time wall;  // by the wall clock, at the same moment
};

class AgeClock {
 public:
  static constexpr absl::Duration kMostOverRestart = absl::Hours(24);

  // `steady`: from any fixed start. `last`: of the process before.
  AgeClock(std::function<absl::Time()> wall, std::function<absl::Duration()> steady, std::optional<AgeMark> last)
      : wall_(std::move(wall)), steady_(std::move(steady)), begin_(steady_()), begin_age_(wall_()) {
    if (!last.has_value()) return;
    const absl::Duration between = begin_age_ - last->wall;
    begin_age_ = last->age + std::clamp(between, absl::ZeroDuration(), kMostOverRestart);
  }

  // Never earlier than before.
  absl::Time Now() const { return begin_age_ + (steady_() - begin_); }
  AgeMark Mark() const { return {Now(), wall_()}; }

 private:
  std::function<absl::Time()> wall_;
  std::function<absl::Duration()> steady_;
  absl::Duration begin_;  // of this process, by the steady clock
  absl::Time begin_age_;
};

}  // namespace adjoin

#endif  // ADJOIN_BASE_AGE_CLOCK_H_
