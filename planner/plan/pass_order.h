// In which order the ranks of a pipeline run the passes of a step: forward and backward of each micro-batch.
//
//   StageGraph next = {{1}, {2}, {}};                                  // three stages, one after the other
//   const std::vector<int> in_flight = MicrobatchesInFlight(next, 4);  // 3, 2, 1
//   for (const Pass& pass : PassOrder(in_flight[0], 8)) ...            // F0 F1 F2 B0 F3 B1 F4 ... (1F1B)
//
// A stage that keeps w micro-batches in flight runs the forward passes of the first w of them, and then in turn the
// backward pass of the oldest and the forward pass of the next. Forward passes, and backward passes, are in the order
// of the micro-batches on every rank: so the executions of each movement are, and gradients add up as in PassOrder(1,
// m), which is one micro-batch after the other.
//
// No rank waits for another in a circle. Give the passes of micro-batch m on a stage with w in flight the heights
// 2m - w (forward) and 2m + w - 1 (backward). A pass waits for these only:
//   - the pass before it on its stage: F(m) for B(m - w), of height 2m - w - 1, or F(m - 1); B(m) for F(m + w - 1), of
//     height 2m + w - 2, or an earlier one, or B(m - 1). Lower.
//   - data: F(m) for F(m) of an earlier stage, B(m) for B(m) of a later one. Since w does not grow along the graph, it
//     is not higher; where it is as high, w is the same, and the stage is an earlier one, for B a later one.
//   - room: a rank sends ahead of the receiver, but two executions of a movement at most
//     (primitives/comm/communicator.h). So F(m) may wait for F(m - 2) of a later stage, B(m) for B(m - 2) of an earlier
//     one. With w and v in flight that is lower where w - v < 4.
// So each wait leads to a lower height, or at one height further along the graph. Both conditions on w are
// MicrobatchesInFlight's. Ranks of one stage run everything in one order; what they do within a pass is in the order of
// the tape.
#ifndef ADJOIN_PLANNER_PLAN_PASS_ORDER_H_
#define ADJOIN_PLANNER_PLAN_PASS_ORDER_H_

#include <cstdint>
#include <vector>

namespace adjoin {

// By stage, the stages that get something from it in a forward pass; each has a larger number than the stage itself.
using StageGraph = std::vector<std::vector<int>>;

struct Pass {
  bool backward = false;
  int64_t microbatch = 0;
  friend bool operator==(const Pass& a, const Pass& b) {
    return a.backward == b.backward && a.microbatch == b.microbatch;
  }
};

// `in_flight`: at least 1.
std::vector<Pass> PassOrder(int64_t in_flight, int64_t microbatches);

// Returns for each stage how many micro-batches it keeps in flight, from 1 to `most`: the last stages one, each of the
// others one more than the stages after it need, so that it has work while their gradients are on their way.
std::vector<int64_t> MicrobatchesInFlight(const StageGraph& next, int64_t most);

// What a stage's ranks do in a micro-batch.
struct StageWork {
  double forward = 0;
  double backward = 0;
  int64_t ranks = 0;
};

// Returns the share of all ranks' time, from the first pass to the last, in which they have nothing to do; 0 where
// there is no work. Movements take no time.
double IdleShare(const StageGraph& next, const std::vector<int64_t>& in_flight, const std::vector<StageWork>& work,
                 int64_t microbatches);

}  // namespace adjoin

#endif  // ADJOIN_PLANNER_PLAN_PASS_ORDER_H_
