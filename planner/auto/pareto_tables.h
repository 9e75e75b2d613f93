// The least cost under a limit of memory, by tables of pairs (seconds, bytes) instead of numbers.
//
//   const ParetoChoice found = ParetoMinimum(problem, limit, /*upper=*/best.seconds);
//
// As pairwise_minimum.h eliminates variables, with a list of pairs in each cell, none of which is worse than another in
// both. Bytes are counted in 1/512 of the limit, rounded up, so that what is found fits. Pairs that cannot lead below
// `upper` are dropped. Gives up where tables become too large: graphs of width 2 are what it is for.
#ifndef ADJOIN_PLANNER_AUTO_PARETO_TABLES_H_
#define ADJOIN_PLANNER_AUTO_PARETO_TABLES_H_

#include <cstdint>
#include <vector>

namespace adjoin {

struct MemoryProblem;

struct ParetoChoice {
  std::vector<int> choice, option;  // empty: nothing better than `upper` was found
  int64_t work = 0;
};

ParetoChoice ParetoMinimum(const MemoryProblem& problem, int64_t limit, double upper);

}  // namespace adjoin

#endif  // ADJOIN_PLANNER_AUTO_PARETO_TABLES_H_
