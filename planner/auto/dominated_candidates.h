// Candidates that no best choice has, found before the search.
//
//   const Undominated left = UndominatedOf(problem);
//   left.candidate[v];      // of variable v, in ascending order: what need be looked at
//
// Candidate c of a variable is dominated by c' where c' costs less whatever the neighbours choose:
//
//   node[c'] + sum over edges of max over j of (edge[c'][j] - edge[c][j]) < node[c]
//
// (dead-end elimination: R. F. Goldstein, Biophys. J. 66, 1994). Only candidates that are left count as c' and j, until
// nothing changes. The least cost stays the same; equal costs dominate nothing, so all best choices stay.
#ifndef ADJOIN_PLANNER_AUTO_DOMINATED_CANDIDATES_H_
#define ADJOIN_PLANNER_AUTO_DOMINATED_CANDIDATES_H_

#include <cstdint>
#include <vector>

#include "planner/auto/pairwise_minimum.h"

namespace adjoin {

struct Undominated {
  std::vector<std::vector<int>> candidate;  // by variable; at least one where it has any
  int64_t work = 0;                         // sums that were looked at
};

Undominated UndominatedOf(const PairwiseProblem& problem);

// The problem with these candidates alone.
PairwiseProblem Restricted(const PairwiseProblem& problem, const std::vector<std::vector<int>>& candidate);

}  // namespace adjoin

#endif  // ADJOIN_PLANNER_AUTO_DOMINATED_CANDIDATES_H_
