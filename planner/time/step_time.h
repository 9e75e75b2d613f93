// How long a step that trains takes, predicted from a plan.
//
//   ADJOIN_ASSIGN_OR_RETURN(const StepTime time, PredictStepTime(plan, CostModel::Default()));
//   time.step();           // seconds
//   time.layer[0].forward;
//
// The program "train" is gone through layer by layer, as Network goes through it, with a clock for each rank that is
// looked at: kernels advance a rank's clock, and a movement begins when the last of the ranks that it joins has come.
// Where the job gives its ranks weights, these count as their speeds: the rates are those of the rank with the largest,
// and the others' kernels take longer in proportion.
// Pure: no LibTorch.
#ifndef ADJOIN_PLANNER_TIME_STEP_TIME_H_
#define ADJOIN_PLANNER_TIME_STEP_TIME_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "planner/time/cost_model.h"
#include "proto/plan.pb.h"
#include "proto/plan_report.pb.h"

namespace adjoin {

struct StepTimeOptions {
  double ranks_per_core = 1;    // that share a core, and take turns
  std::string lane = "memory";  // between the ranks: CostModel::OfMovement
};

// Seconds of one rank in one step. Each is finite, 0 or more.
struct StepTime {
  int rank = 0;         // that is looked at: the busiest
  double compute = 0;   // kernels
  double movement = 0;  // packing, sending, adding
  double wait = 0;      // for ranks that compute longer
  double gradient = 0;  // sums of gradients over ranks, waits included
  double update = 0;    // the optimizer, the batch, everything once a step
  struct Layer {
    std::string name;
    double forward = 0;   // compute
    double backward = 0;  // likewise, with what is computed again
    double movement = 0;  // forward and backward
  };
  std::vector<Layer> layer;  // in the program's order; losses are not among them

  double step() const { return compute + movement + wait + gradient + update; }
};

// All ranks of a small job are looked at; of a large one some: the first, the last, and some between, where parts are
// edges and interiors, and some of each weight. Errors: kNotFound where the plan trains nothing; as LayoutFromProto and
// TrafficOf.
absl::StatusOr<StepTime> PredictStepTime(const Plan& plan, const CostModel& model, const StepTimeOptions& options = {});

// For people. `model`: whose rates these are.
TimeReport ReportOf(const StepTime& time, const CostModel& model);

}  // namespace adjoin

#endif  // ADJOIN_PLANNER_TIME_STEP_TIME_H_
