// Lets each rank read halos from the data files instead of fetching them from its neighbours.
//
//   ADJOIN_ASSIGN_OR_RETURN(Plan plan, Planner::Build(spec, sizes, rules));
//   ReadHalosFromFiles(&plan);     // before Planner::Hash
//
// A layer that reads a field through a halo exchange (ValuePlan.field, OperatorPlan.reading) gets the field as the
// exchange would leave it (ValuePlan.read), and the exchange is removed. It stays where the field needs a gradient, and
// where the fill is not finite (max pooling's minus infinity). Pure.
#ifndef ADJOIN_PLANNER_PLAN_FILE_HALOS_H_
#define ADJOIN_PLANNER_PLAN_FILE_HALOS_H_

#include "proto/plan.pb.h"

namespace adjoin {

void ReadHalosFromFiles(Plan* plan);

}  // namespace adjoin

#endif  // ADJOIN_PLANNER_PLAN_FILE_HALOS_H_
