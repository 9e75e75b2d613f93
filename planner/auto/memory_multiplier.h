// The least cost under a limit of memory, where memory adds up over variables.
//
//   MemoryProblem problem;                     // as PairwiseProblem, each candidate with options of (seconds, bytes)
//   const MemoryMinimum found = MinimumUnder(problem, /*limit=*/int64_t{4} << 30);
//   found.seconds, found.lower_bound;          // the best choice that was found, and what none is below
//
// seconds + lambda * bytes is minimised exactly (pairwise_minimum.h) for lambdas that approach the best one: each gives
// the lower bound min(seconds + lambda * bytes) - lambda * limit (Lagrange), and a choice on the convex hull of all
// choices. Where the best that fits is more than 1 % above the bound, tables of pairs (seconds, bytes in 1/512
// of the limit, rounded up) are tried instead of numbers (pareto_tables.h).
#ifndef ADJOIN_PLANNER_AUTO_MEMORY_MULTIPLIER_H_
#define ADJOIN_PLANNER_AUTO_MEMORY_MULTIPLIER_H_

#include <cstdint>
#include <vector>

#include "planner/auto/pairwise_minimum.h"

namespace adjoin {

struct MemoryProblem {
  struct Option {
    double seconds = 0;  // finite
    int64_t bytes = 0;   // 0 or more
  };
  // By variable and candidate: at least one option, or none where the candidate is not allowed.
  std::vector<std::vector<std::vector<Option>>> node;
  std::vector<PairwiseProblem::Edge> edge;  // in seconds, which are 0 or more
};

struct MemoryMinimum {
  double seconds = kImpossible;      // kImpossible: nothing fits
  double lower_bound = kImpossible;  // no choice that fits takes less
  int64_t bytes = 0;
  std::vector<int> choice, option;  // by variable; empty where nothing fits
  int64_t least_bytes = 0;          // of all choices, whatever they take
  int64_t work = 0;
};

// `limit` below 0: none.
MemoryMinimum MinimumUnder(const MemoryProblem& problem, int64_t limit, const PairwiseLimits& limits = {});

}  // namespace adjoin

#endif  // ADJOIN_PLANNER_AUTO_MEMORY_MULTIPLIER_H_
