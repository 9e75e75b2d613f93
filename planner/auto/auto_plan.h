// A job with layouts that the planner has chosen.
//
//   const AutoOptions options = {.ranks = 8};
//   ADJOIN_ASSIGN_OR_RETURN(const AutoPlan chosen, PlanAutomatically(job, sizes, rules, model, options));
//   chosen.spec;   // the job, its layouts written out; Planner::Build and ReadHalosFromFiles make chosen.plan of it
//   chosen.report.lower_bound_seconds();
//
// What the user wrote of layouts, homes and recomputation is dropped, but for pins. The search is exact
// (layout_search.h), of what it counts. The plan that it leads to is judged by planner/time beside those of all samples
// cut, and of one spatial dim cut throughout, and the fastest is taken. Where memory is limited, the plan is judged by
// planner/memory, and the search is repeated with less until that fits. Equal arguments give equal answers, but for
// SearchReport.search_seconds.
#ifndef ADJOIN_PLANNER_AUTO_AUTO_PLAN_H_
#define ADJOIN_PLANNER_AUTO_AUTO_PLAN_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "layers/rules/layer_rule.h"
#include "planner/memory/step_memory.h"
#include "planner/plan/planner.h"
#include "planner/spec/spec_locations.h"
#include "planner/time/cost_model.h"
#include "proto/job.pb.h"
#include "proto/plan.pb.h"
#include "proto/plan_report.pb.h"

namespace adjoin {

// By Dataset.name: extents in place of -1, of a data set of whole volumes (planner/spec/whole_volumes.h).
using VolumeExtents = std::map<std::string, std::vector<int64_t>>;

struct AutoOptions {
  int64_t ranks = 0;         // 0: the job's
  int64_t memory_bytes = 0;  // of tensors, of each rank; 0: the job's resources.memory_bytes, or else no limit
  // "conv1=1x1x2x2": the layer reads its inputs in this partition, or in this layout of the job ("conv1=grid").
  std::vector<std::string> pin = {};
  bool explain = true;  // also the next best choices and the alternatives
  // The volumes that layouts are chosen for, such as the largest ones; of other data sets as Planner::Build has it.
  // AutoPlan.plan is for them, AutoPlan.spec for all.
  VolumeExtents extents = {};
  const SpecLocations* locations = nullptr;  // of the job, for errors; null: they have no lines
};

struct AutoPlan {
  JobSpec spec;
  Plan plan;
  RankMemory memory;
  double step_seconds = 0;  // as planner/time predicts it from the plan; where nothing trains, as the search counts
  SearchReport report;
  // By layer of the job with a choice of its own, in the job's order: what the search counts for it.
  struct LayerSeconds {
    std::string layer;
    std::vector<std::string> with;  // layers that follow it
    double compute = 0, movement = 0;
    int64_t bytes = 0;
  };
  std::vector<LayerSeconds> layer;
};

// Errors: as Planner::Build, for what is wrong with the job whatever its layouts are; kInvalidArgument: ranks out of
// range; a pin of an unknown layer (names the nearest), of another number of dims, or which the layer's rule refuses;
// kResourceExhausted: nothing fits the memory (says the least that would do, and at which layer the peak is).
absl::StatusOr<AutoPlan> PlanAutomatically(const JobSpec& job, const DatasetSizes& sizes, const LayerRules& rules,
                                           const CostModel& model, const AutoOptions& options);

}  // namespace adjoin

#endif  // ADJOIN_PLANNER_AUTO_AUTO_PLAN_H_
