// By how much the clocks of ranks differ, measured by round trips between rank 0 and each other rank.
//
//   ADJOIN_ASSIGN_OR_RETURN(ClockReading before, ReadClocks(messages, clock));     // on every rank
//   ...
//   ADJOIN_ASSIGN_OR_RETURN(ClockReading after, ReadClocks(messages, clock));
//   const ClockAlignment alignment(before, after);
//   const int64_t there = alignment.OnRank0(here);                                 // nanoseconds
//
// A rank that has rank 0's clock itself (one kernel, one time namespace) needs no round trips, and its error is 0. Else
// the difference is taken from the fastest of several: the message that came back shows that rank 0's clock and this
// one's differ by no more than half of its time from what its middle says, however unlike its two ways are.
#ifndef ADJOIN_WORKER_TRACE_CLOCK_ALIGNMENT_H_
#define ADJOIN_WORKER_TRACE_CLOCK_ALIGNMENT_H_

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "worker/trace/rank_messages.h"

namespace adjoin {

struct RankClock {
  std::function<int64_t()> now;  // nanoseconds
  uint64_t id = 0;               // two ranks with one id have one clock; 0: it is not known which clock it is

  // CLOCK_MONOTONIC of this process.
  static RankClock OfProcess();
};

// This rank's clock beside rank 0's, at one moment.
struct ClockReading {
  int64_t at = 0;      // of rank 0's clock
  int64_t offset = 0;  // this rank's minus rank 0's
  int64_t error = 0;   // by which the offset may be wrong at most
};

// Collective, and as a barrier: no rank returns before all have called it. Errors: as RankMessages.
absl::StatusOr<ClockReading> ReadClocks(RankMessages& messages, const RankClock& clock);

// Between two readings clocks are taken to drift evenly.
class ClockAlignment {
 public:
  ClockAlignment() = default;
  ClockAlignment(const ClockReading& before, const ClockReading& after) : before_(before), after_(after) {}

  int64_t OnRank0(int64_t here) const;
  // Nanoseconds by which OnRank0 may be wrong at most.
  int64_t error() const { return before_.error > after_.error ? before_.error : after_.error; }
  int64_t offset() const { return before_.offset; }
  int64_t drift() const { return after_.offset - before_.offset; }

 private:
  ClockReading before_, after_;
};

}  // namespace adjoin

#endif  // ADJOIN_WORKER_TRACE_CLOCK_ALIGNMENT_H_
