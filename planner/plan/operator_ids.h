// Numbers the movements of a plan.
#ifndef ADJOIN_PLANNER_PLAN_OPERATOR_IDS_H_
#define ADJOIN_PLANNER_PLAN_OPERATOR_IDS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "proto/plan.pb.h"

namespace adjoin {

// Hands out operator ids, 1, 2, ..., and refuses a plan whose movements are too many to be numbered, counted or held.
class OperatorIds {
 public:
  // Sets the id. `ranks`: of the job. Errors: kInvalidArgument above kLargestPlannedOperator (reserved_ids.h); where
  // movements times ranks are more than 2^24, of jobs whose plan lists the bytes of each rank (kMostListedRanks), or
  // more than 2^27, of larger jobs, whose movements take time to be counted; where the bytes of all are more than 2^60.
  absl::Status Take(OperatorPlan& op, uint32_t ranks);

 private:
  uint32_t last_ = 0;
  int64_t bytes_ = 0;  // forward and backward, of all movements on all ranks
};

}  // namespace adjoin

#endif  // ADJOIN_PLANNER_PLAN_OPERATOR_IDS_H_
