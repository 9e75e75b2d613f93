// A plan's numbers: what `adjoin plan` shows and prints for programs (proto/plan_report.proto).
//
//   PlanReport report = MakePlanReport(plan);
//   report.parameters();                       // 61706
//   report.program(0).layer(0).output();       // name, layout and bytes
#ifndef ADJOIN_PLANNER_PLAN_PLAN_REPORT_H_
#define ADJOIN_PLANNER_PLAN_PLAN_REPORT_H_

#include "planner/time/cost_model.h"
#include "proto/plan.pb.h"
#include "proto/plan_report.pb.h"

namespace adjoin {

// `plan`: made by Planner::Build. Sums that do not fit 64 bits are the largest number that does. `unknown_size` stays
// empty: a plan does not tell which data sets a job has beside those of known size.
// `model`: of the nodes on which the job would run.
PlanReport MakePlanReport(const Plan& plan, const CostModel& model = CostModel::Default());

}  // namespace adjoin

#endif  // ADJOIN_PLANNER_PLAN_PLAN_REPORT_H_
