// The stages of a plan: which ranks can be at different micro-batches at the same time (Train.microbatches_in_flight).
//
//   const PipelineStages stages = PipelineStages::Of(plan);
//   PassOrder(stages.in_flight(rank), parts);       // what this rank does in a step (pass_order.h)
//   stages.Between(program.op(3));                  // its two sides are at different micro-batches
//
// A stage is a set of ranks that run all passes in one order. Ranks of one mesh are of one stage. So are both sides of
// a movement that an execution goes back and forth in, or that runs in the backward pass as well as in the forward
// pass: what a layer moves between its steps, maxima and minima over ranks, and all that layers move which are computed
// again; and so are ranks that get something from each other in a circle. What is left goes from earlier stages to
// later ones, once in each forward pass, and back once in each backward pass.
//
// Pure: the same on every rank. A plan whose job has one micro-batch in flight has one stage.
#ifndef ADJOIN_PLANNER_PLAN_PIPELINE_STAGES_H_
#define ADJOIN_PLANNER_PLAN_PIPELINE_STAGES_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "planner/plan/pass_order.h"
#include "proto/plan.pb.h"

namespace adjoin {

class PipelineStages {
 public:
  // Errors: as RecomputedRuns.
  static absl::StatusOr<PipelineStages> Of(const Plan& plan);

  int size() const { return static_cast<int>(next_.size()); }
  // Each after those that it gets something from.
  const StageGraph& next() const { return next_; }
  int StageOf(int rank) const { return stage_of_[rank]; }
  // By stage, ascending.
  const std::vector<std::vector<uint32_t>>& ranks() const { return ranks_; }
  // By stage: micro-batches that it keeps.
  const std::vector<int64_t>& in_flight() const { return in_flight_; }
  int64_t in_flight(int rank) const { return in_flight_[stage_of_[rank]]; }

  // True for a movement of a training program's layers or losses that goes from one stage to another.
  bool Between(const OperatorPlan& op) const;

 private:
  std::vector<int> stage_of_;  // by rank
  std::vector<std::vector<uint32_t>> ranks_;
  StageGraph next_;
  std::vector<int64_t> in_flight_;
};

// The ranks of a layout's mesh, in its order.
std::vector<uint32_t> RanksOf(const LayoutPlan& layout);

// Returns the share of their time in which ranks have nothing to do, by the floating-point operations of the layers;
// a backward pass takes twice as many as a forward pass.
double IdleShareOf(const Plan& plan, const PipelineStages& stages);

}  // namespace adjoin

#endif  // ADJOIN_PLANNER_PLAN_PIPELINE_STAGES_H_
