// The same job on another number of ranks: its layouts cut coarser or finer by a fixed rule, so that one model can be
// compared on several numbers of ranks.
//
//   JobSpec on_two = Recut(spec, 2);      // of a job on 4 ranks: partition [1, 1, 2, 2] becomes [1, 1, 2, 1]
//
//  - On fewer ranks, R, a layout of more than R parts gets as many parts as R allows, never more along an axis than it
//    had. Of several such ways, the one whose most shortened axis keeps most of its parts; of those, the one that keeps
//    most of its first axes.
//  - On more ranks than the job's own S, the prime factors of R / S, rounded down, greatest first, each multiply the
//    axis that has the fewest parts then, of those that have several (the first of these).
//  - Ranks that a layout names stay where its number of parts stays and they are all below R; else they become the
//    first ones. Explicit cuts stay where their dim keeps its number of parts; else it is cut evenly. Owners that are
//    named become the layer's own choice.
//  - Weights of ranks are those of the first ranks; more ranks than had weights begin with the first one's again.
//  - Where a job on one rank says nothing of a field's layout, on several ranks it is cut by batch.
//
// Nothing else changes: whether the result fits is the planner's to say.
#ifndef ADJOIN_VERIFY_RECUT_H_
#define ADJOIN_VERIFY_RECUT_H_

#include <cstdint>
#include <vector>

#include "proto/job.pb.h"

namespace adjoin {

// `spec` has passed the planner. With its own number of ranks it stays as it is.
JobSpec Recut(const JobSpec& spec, uint32_t ranks);

// The job's weights of ranks for another number of ranks: those of the first ones; further ranks begin with the first
// one's again. None where the job has none.
std::vector<double> RecutWeights(const JobSpec& spec, uint32_t ranks);

// What becomes of the parts of one layout, per dim or mesh axis, of a job on `from` ranks.
std::vector<int64_t> RecutParts(const std::vector<int64_t>& parts, int64_t from, int64_t ranks);

}  // namespace adjoin

#endif  // ADJOIN_VERIFY_RECUT_H_
