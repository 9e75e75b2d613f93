// What is planned as the job says, and probably not meant.
//
//   for (const std::string& warning : PlanWarnings(plan)) std::cout << "warning: " << warning << "\n";
#ifndef ADJOIN_PLANNER_PLAN_PLAN_WARNINGS_H_
#define ADJOIN_PLANNER_PLAN_PLAN_WARNINGS_H_

#include <string>
#include <vector>

#include "proto/plan.pb.h"

namespace adjoin {

// One sentence each, without a full stop; in the order of the ranks and layers. None is an error: the job runs.
//   ranks that compute nothing in any layer
//   layers that reorder or repeat the samples of a micro-batch, not of the batch
std::vector<std::string> PlanWarnings(const Plan& plan);

}  // namespace adjoin

#endif  // ADJOIN_PLANNER_PLAN_PLAN_WARNINGS_H_
