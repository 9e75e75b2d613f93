// How fast the ranks of a job compute, compared with each other.
//
//   const std::vector<double> slowness = SlownessOfRanks(spec);   // weights 1, 2, 3, 1.5: 3, 1.5, 1, 2
#ifndef ADJOIN_PLANNER_TIME_RANK_RATES_H_
#define ADJOIN_PLANNER_TIME_RANK_RATES_H_

#include <vector>

#include "proto/job.pb.h"

namespace adjoin {

// By rank, how many times as long it takes for the same work as the rank with the largest weight, whose rates those of
// the table are: JobSpec.rank_weight is taken for the ranks' speed. Empty where there are no weights, or all are the
// same, or they are not one finite number above 0 for each rank (which the planner refuses).
std::vector<double> SlownessOfRanks(const JobSpec& spec);

// Ranks among which those are that take longest for their parts: of few ranks all; of many the first and the last one
// of each weight, of at most 16 weights. In order; none where `slowness` is empty.
std::vector<int> RanksOfEachRate(const std::vector<double>& slowness);

// How many times as long the slowest of these ranks takes: 1 or more. `slowness`: as above.
double SlowestOf(const std::vector<double>& slowness, const std::vector<int>& ranks);

}  // namespace adjoin

#endif  // ADJOIN_PLANNER_TIME_RANK_RATES_H_
