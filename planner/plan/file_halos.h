// Lets each rank read from the data files the halos that it would else fetch from its neighbours.
//
//   ADJOIN_ASSIGN_OR_RETURN(Plan plan, Planner::Build(spec, sizes, rules));
//   ReadHalosFromFiles(&plan);     // before Planner::Hash
//
// A layer that reads a field through a halo exchange (ValuePlan.field, OperatorPlan.reading) gets the field as the exchange
// would leave it (ValuePlan.read), and the exchange falls away. Not where the field's gradient is asked for, and not where
// a fill is no number that data may hold (max pooling's minus infinity). Pure.
#ifndef ADJOIN_PLANNER_PLAN_FILE_HALOS_H_
#define ADJOIN_PLANNER_PLAN_FILE_HALOS_H_

#include "proto/plan.pb.h"

namespace adjoin {

void ReadHalosFromFiles(Plan* plan);

}  // namespace adjoin

#endif  // ADJOIN_PLANNER_PLAN_FILE_HALOS_H_
