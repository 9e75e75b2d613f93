// Finds out when the ranks of an attempt make no progress, and which of them lags.
//
//   ProgressWatch watch(limits, ranks, now);
//   watch.Heard(rank, pulse, now);                       // with every heartbeat
//   if (auto why = watch.Stuck(now, lateness, name_of)) ...
//   // "no step was finished for 60s: rank 2 on worker-1 is stopped ..."
//
// Ranks advance in step with each other, so the attempt made progress whenever any of them finished a step or reached
// another phase. While a rank that is heard of reads or writes files, the clock stands: slow files are no failure.
// Not thread-safe.
#ifndef ADJOIN_COORDINATOR_DECISIONS_PROGRESS_WATCH_H_
#define ADJOIN_COORDINATOR_DECISIONS_PROGRESS_WATCH_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "proto/coordinator.pb.h"

namespace adjoin {

struct ProgressLimits {
  absl::Duration shortest =
      absl::Seconds(60);  // without a step; or ten times the median of the steps, where that is longer
  absl::Duration first_step = absl::Seconds(600);  // for the first step of each phase
  absl::Duration silence = absl::Seconds(5);       // a rank that is silent for so long is the one to name
};

class ProgressWatch {
 public:
  // `now` is of any monotonic clock, the same in all calls.
  ProgressWatch(const ProgressLimits& limits, size_t ranks, absl::Duration now);

  void Heard(const RankPulse& pulse, absl::Duration now);
  // The daemons could not be heard: there may have been progress.
  void Excuse(absl::Duration now) { last_progress_ = now; }
  // When the attempt will be stuck, if there is no progress until then. `lateness`: as Stuck's.
  absl::Duration StuckAt(absl::Duration lateness) const { return last_progress_ + Limit() + lateness; }
  // Returns why the attempt is stuck, or nothing while it is not. `lateness`: WorkerTable::Lateness, the largest of the
  // attempt's workers. `name_of(2)`: "rank 2 on worker-1".
  std::optional<std::string> Stuck(absl::Duration now, absl::Duration lateness,
                                   const std::function<std::string(size_t rank)>& name_of) const;

 private:
  // Returns the largest median of the ranks' last steps; 0 before the first step.
  double StepSeconds() const;
  absl::Duration Limit() const;

  ProgressLimits limits_;
  std::vector<RankPulse> pulses_;
  std::vector<absl::Duration> heard_;  // when the rank itself spoke last
  absl::Duration last_progress_;
};

}  // namespace adjoin

#endif  // ADJOIN_COORDINATOR_DECISIONS_PROGRESS_WATCH_H_
