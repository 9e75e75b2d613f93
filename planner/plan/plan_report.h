// A plan's numbers: what `adjoin plan` shows and prints for programs (proto/plan_report.proto).
//
//   PlanReport report = MakePlanReport(plan);
//   report.parameters();                       // 61706
//   report.program(0).layer(0).output();       // name, layout and bytes
#ifndef ADJOIN_PLANNER_PLAN_PLAN_REPORT_H_
#define ADJOIN_PLANNER_PLAN_PLAN_REPORT_H_

#include <string>

#include "absl/status/statusor.h"
#include "planner/time/cost_model.h"
#include "proto/plan.pb.h"
#include "proto/plan_report.pb.h"

namespace adjoin {

// `plan`: made by Planner::Build. Sums that do not fit 64 bits are the largest number that does. `unknown_size` stays
// empty: a plan does not tell which data sets a job has beside those of known size.
// `model`: of the nodes on which the job would run.
PlanReport MakePlanReport(const Plan& plan, const CostModel& model = CostModel::Default());

// How much memory the rank takes that needs most, at the worst moment. Errors: as PredictLargestMemory.
absl::StatusOr<MemoryReport> MakeMemoryReport(const Plan& plan);

// True where a plan tells the memory that the job takes: it is not made for whole volumes of any extents.
bool KnowsMemory(const Plan& plan);

// What makes up the memory, for people: "parameters 1.10 GiB, activations 7.52 GiB, the process itself 416 MiB".
std::string MemoryPartsText(const MemoryReport& memory);

}  // namespace adjoin

#endif  // ADJOIN_PLANNER_PLAN_PLAN_REPORT_H_
