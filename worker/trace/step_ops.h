// One step of one rank as a list: it works, posts messages, needs messages, needs room for those that it sends. Waiting
// is what is left, and follows from the others (step_replay.h).
//
//   const RecordedStep step = StepOf(spans, /*rank=*/2, alignment);
//
// A pure function of what was recorded.
#ifndef ADJOIN_WORKER_TRACE_STEP_OPS_H_
#define ADJOIN_WORKER_TRACE_STEP_OPS_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "primitives/comm/span_recorder.h"
#include "worker/trace/clock_alignment.h"

namespace adjoin {

struct StepOp {
  enum class Kind : int64_t {
    kWork,
    kSend,
    kReceive,
    kReady,       // from here on the rank has room for a message that it receives
    kAwaitReady,  // nothing to do until the receiver had room for a message that was sent
    kAwaitTaken,  // nothing to do until the receiver had taken in an earlier message, so that another might be sent
  };
  // Parts of a step's work beside PartOf.
  static constexpr int32_t kData = -1;   // reading the batch
  static constexpr int32_t kOther = -2;  // optimizer, sums, losses; waiting for what is no message

  // No gaps between the fields: ranks send it as it lies in memory.
  Kind kind = Kind::kWork;
  int32_t part = kOther;  // of work
  int32_t peer = -1;      // of a message
  uint64_t flow = 0;      // of a message; all but work name one
  int64_t bytes = 0;      // likewise
  int64_t waited = 0;     // of a receive, and of what is awaited: for how long the rank had nothing else to do, in ns
  int64_t ns = 0;         // of work: how long. Of all others: when they happened or were over, on rank 0's clock
};

inline int32_t PartOf(int32_t layer, bool backward) { return 2 * layer + (backward ? 1 : 0); }

// What one rank did in a step.
struct RecordedStep {
  int64_t begin = 0, end = 0;  // on rank 0's clock; both 0: nothing was recorded
  std::vector<StepOp> ops;
};

// `spans`: with one of kind kStep, of which this is made; what is outside of it is left out.
RecordedStep StepOf(absl::Span<const Span> spans, int rank, const ClockAlignment& clock);

}  // namespace adjoin

#endif  // ADJOIN_WORKER_TRACE_STEP_OPS_H_
