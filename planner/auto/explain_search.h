// Why a job is cut as it is, for people.
//
//   ExplainSearch(chosen, MakePlanReport(chosen.plan, model).memory(), model.machine());
//   ExplainRanks({{1, ...}, {2, ...}});
//
// In the order in which people ask: does it fit and how long; what takes the memory; layer by layer what was chosen,
// and what the next best would cost; the obvious alternatives; how much was searched.
#ifndef ADJOIN_PLANNER_AUTO_EXPLAIN_SEARCH_H_
#define ADJOIN_PLANNER_AUTO_EXPLAIN_SEARCH_H_

#include <cstdint>
#include <string>
#include <vector>

#include "planner/auto/auto_plan.h"
#include "proto/plan_report.pb.h"

namespace adjoin {

// Lines that end with a line end. `machine`: whose rates layouts were chosen by; "" is not shown.
std::string ExplainSearch(const AutoPlan& chosen, const MemoryReport& memory, const std::string& machine);

// What one number of ranks gives.
struct RanksRow {
  int64_t ranks = 0;
  double seconds = 0;                     // of a step
  int64_t bytes = 0;                      // of tensors, on the rank that needs most
  std::string impossible;                 // why there is no plan; empty: there is
  std::vector<std::string> warning = {};  // of the plan (planner/plan/plan_warnings.h)
};
// A table, from where on more ranks gain little, and the plans' warnings, each once with the numbers of ranks that it
// is for. The speed-up is over the first row that is possible.
std::string ExplainRanks(const std::vector<RanksRow>& rows);

}  // namespace adjoin

#endif  // ADJOIN_PLANNER_AUTO_EXPLAIN_SEARCH_H_
