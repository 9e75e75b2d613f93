// Replays one step of all ranks from what was measured: every rank works and posts messages in its order, and goes on
// past a receive once the message has come, and past a wait for room once the receiver has made it. Changed times then
// tell how long the step would have been.
//
//   const StepGraph graph(steps);                                    // a RecordedStep of each rank
//   const double measured = graph.Replay();                          // seconds
//   const double without = graph.Replay({.work = shorter});
//
// A pure function: what waits for nothing but messages of the step is replayed exactly.
#ifndef ADJOIN_WORKER_TRACE_STEP_REPLAY_H_
#define ADJOIN_WORKER_TRACE_STEP_REPLAY_H_

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "worker/trace/step_ops.h"

namespace adjoin {

class StepGraph {
 public:
  struct Message {
    int from = 0, to = 0;
    int64_t bytes = 0;
    double seconds = 0;  // between its posting and its arrival
    bool waited = false;
  };
  // Times in place of the measured ones, in seconds.
  struct Change {
    std::vector<std::vector<double>> work = {};  // by rank, and by the index of its ops; empty: as measured
    std::vector<double> moves = {};              // by message; empty: as measured
  };

  // Messages whose two ends are not both there are left out. Waits that would wait for themselves by way of others, as
  // they can where clocks are off or a wait was for something else than it seems, are work as long as they were.
  explicit StepGraph(const std::vector<RecordedStep>& steps);

  int ranks() const { return static_cast<int>(ops_.size()); }
  // Seconds of the step: from the first rank's beginning to the last one's end.
  double Replay() const { return Replay(Change()); }
  double Replay(const Change& change) const;

  struct Op {
    int32_t part = StepOp::kOther;
    StepOp::Kind kind = StepOp::Kind::kWork;
    double work = 0;       // seconds; 0 of all others
    int64_t message = -1;  // index; -1 of work
    double after = 0;      // seconds between what is awaited of the receiver and the end of the wait
    double waited = 0;     // of what is awaited of the receiver: seconds in which the rank had nothing else to do
  };
  const std::vector<Op>& ops(int rank) const { return ops_[static_cast<std::size_t>(rank)]; }
  const std::vector<Message>& messages() const { return messages_; }

 private:
  // A rank, and the index of its op.
  using Place = std::pair<std::size_t, std::size_t>;
  // Replays the step. Where all ranks wait for each other, the wait for a receiver that has begun first is passed by
  // after as long as it was, and added to `passed_by`. Which these are depends on the order of ops, and in a circle on
  // what has begun first; without them no replay comes to such a place, whatever its times.
  double Run(const Change& change, std::vector<Place>& passed_by) const;

  std::vector<std::vector<Op>> ops_;  // by rank
  std::vector<double> begins_;        // by rank: seconds after the first one's
  std::vector<Message> messages_;
};

}  // namespace adjoin

#endif  // ADJOIN_WORKER_TRACE_STEP_REPLAY_H_
