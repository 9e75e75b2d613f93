// The least cost of a choice for each of many variables, where the cost is a sum over single variables and over pairs.
//
//   PairwiseProblem problem;
//   problem.node = {{0, 3}, {1, 1}};                              // two variables with two candidates each
//   problem.edge.push_back({.a = 0, .b = 1, .cost = {5, 0, 0, 5}});   // cost[i * 2 + j] of candidates i of a, j of b
//   const PairwiseMinimum minimum = MinimumOf(problem);
//   minimum.cost;       // 1
//   minimum.choice;     // {0, 1}
//
// Candidates that cost more than another whatever the neighbours choose are dropped first (dominated_candidates.h).
// Then one variable after another is eliminated, in order of least degree: its best candidate for each choice of its
// neighbours goes into a table over these, and the tables are read backwards in the end. Where the smallest table were
// too large, the candidates of the variable with most neighbours are tried one after the other, the most promising
// first; a lower bound (tables split until they are small enough: mini-buckets, R. Dechter and I. Rish, J. ACM 50,
// 2003) tells which need not be tried. Cost n k^(w+1) for k candidates and width w. Deterministic: of equal costs, the
// first candidate of the variable that was eliminated last.
#ifndef ADJOIN_PLANNER_AUTO_PAIRWISE_MINIMUM_H_
#define ADJOIN_PLANNER_AUTO_PAIRWISE_MINIMUM_H_

#include <cstdint>
#include <limits>
#include <vector>

namespace adjoin {

inline constexpr double kImpossible = std::numeric_limits<double>::infinity();

struct PairwiseProblem {
  struct Edge {
    int a = 0, b = 0;          // different variables; several edges of two variables add up
    std::vector<double> cost;  // row-major: by candidate of a, then of b
  };
  std::vector<std::vector<double>> node;  // by variable and candidate; kImpossible or finite, none NaN
  std::vector<Edge> edge;                 // likewise
};

struct PairwiseLimits {
  int64_t cells = 20'000'000;     // of a table
  int64_t work = 20'000'000'000;  // sums that are looked at in all, before the best that was found is returned
};

struct PairwiseMinimum {
  double cost = kImpossible;         // kImpossible: no choice is possible
  double lower_bound = kImpossible;  // no choice costs less; equal to `cost` where all was searched
  std::vector<int> choice;           // by variable; empty where none is possible
  int64_t work = 0;                  // sums that were looked at
  bool complete = true;              // false: the limit of work ended the search
};

PairwiseMinimum MinimumOf(const PairwiseProblem& problem, const PairwiseLimits& limits = {});

// The cost of a choice: what MinimumOf minimises.
double CostOf(const PairwiseProblem& problem, const std::vector<int>& choice);

}  // namespace adjoin

#endif  // ADJOIN_PLANNER_AUTO_PAIRWISE_MINIMUM_H_
