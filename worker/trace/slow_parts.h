// What makes a step longer than it would be: a rank that computes more slowly than its like, a pair of ranks between
// which messages take longer, a rank that reads its data more slowly. Each is replaced by the median of its like, and
// the step is replayed: the time that is saved is what it costs. Where several things are slow at once, replacing one
// of them may save nothing, since the others are waited for all the same: then it costs what it takes once all others
// are replaced. A rank that only waits costs nothing. A rank that takes in messages of several others late is slow
// itself, not its links: it does not get to run, as where its node does other work, too. But where one link has most of
// what they are late by, it is that link, and the others are late by chance.
//
//   const SlowParts found = FindSlowParts(steps, [&](int rank, int layer) { return cells[layer][rank]; });
//   // found.parts[0]: rank 3, 1.7 ms, most of it in layer 5
//
// After Lin et al., "Understanding Stragglers in Large Model Training Using What-if Analysis", OSDI 2025. Pure.
#ifndef ADJOIN_WORKER_TRACE_SLOW_PARTS_H_
#define ADJOIN_WORKER_TRACE_SLOW_PARTS_H_

#include <functional>
#include <vector>

#include "worker/trace/step_ops.h"

namespace adjoin {

struct SlowPartFound {
  enum class Kind { kCompute, kLink, kData };
  Kind kind = Kind::kCompute;
  int rank = 0;
  int peer = -1;    // kLink: messages from `rank` to it
  int layer = -1;   // kCompute: the one that exceeds its median most; -1: its messages do more, which it takes in late
  double cost = 0;  // seconds of the step
  double seconds = 0;  // of the layer, forward and backward; of the messages; of the reading
  double median = 0;   // of its like
};

// What ranks computed of one layer, forward and backward.
struct LayerOnRanks {
  int layer = 0;
  // By rank. The median is what it would be at the rate of the median rank; 0: the rank computes nothing of it, or no
  // other one does.
  std::vector<double> seconds, median;
};

struct SlowParts {
  static constexpr int kMostParts = 10;
  static constexpr int kMostComputed = 2048;  // ranks times layers, in `computed`
  static constexpr double kLeastCost = 0.01;  // of the step: less is chance

  double replayed = 0;               // seconds of the step, with nothing replaced
  std::vector<SlowPartFound> parts;  // the costliest first
  // By layer; where there is no room for all, those of which a rank exceeds its median by most.
  std::vector<LayerOnRanks> computed;
  int computed_left_out = 0;  // layers
};

// `work_of`: how much a layer computes on a rank, in any unit, as the number of its cells: ranks are compared by their
// time for one of it. 0: none.
SlowParts FindSlowParts(const std::vector<RecordedStep>& steps,
                        const std::function<double(int rank, int layer)>& work_of);

}  // namespace adjoin

#endif  // ADJOIN_WORKER_TRACE_SLOW_PARTS_H_
