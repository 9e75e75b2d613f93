// Programs for whole volumes of different extents (planner/spec/whole_volumes.h).
//
// The extents are in the files, so a job's plan has such a program for some extents only: they show that the network
// takes volumes, and what its parameters are. A rank plans the program for the extents of each volume itself, from
// the plan's spec, when it comes to it; all ranks make the same.
//
//   ADJOIN_ASSIGN_OR_RETURN(Plan own, PlanForExtents(plan, "predict", {98, 140, 512}, BuiltinLayerRules()));
//   own.program(0).batch();       // 1
//
// The extents of all files are checked before a job is accepted:
//
//   ADJOIN_ASSIGN_OR_RETURN(auto check, ExtentCheck::Create(spec, BuiltinLayerRules()));
//   ADJOIN_RETURN_IF_ERROR(check->Check("ct", "'ct/b.nii'", {98, 140, 511}));
//   // 'ct/b.nii' has the extents 98x140x511, which the network does not take: layer 7 "skip": ...
//
// Pure.
#ifndef ADJOIN_PLANNER_PLAN_EXTENT_PLAN_H_
#define ADJOIN_PLANNER_PLAN_EXTENT_PLAN_H_

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "layers/rules/layer_rule.h"
#include "planner/plan/program_builder.h"
#include "proto/job.pb.h"
#include "proto/plan.pb.h"

namespace adjoin {

// Builds the program of a request whose data set has whole volumes, for extents that the network takes: those of the
// training's blocks, or else the first of a list. Errors: those of ProgramBuilder for the first of them, where the
// network takes none.
absl::Status BuildForSomeExtents(const PlanContext& context, const ProgramRequest& request, OperatorIds* ids,
                                 Plan* plan);

// Returns a plan with the program `program` of `plan` for one sample of these extents, its halos read from the files.
// Its parameters are those of `plan`, in another order. Errors: kInvalidArgument, with the layer (the network does not
// take these extents; a parameter depends on them); there is no such program.
absl::StatusOr<Plan> PlanForExtents(const Plan& plan, const std::string& program, const std::vector<int64_t>& extents,
                                    const LayerRules& rules);

// Returns the plan with its programs for volumes of the data set made for these extents, which its spec then has as
// well: what a report tells of it holds for such a volume. No ranks run it. Errors: as PlanForExtents.
absl::StatusOr<Plan> PlanWithExtents(const Plan& plan, const std::string& dataset, const std::vector<int64_t>& extents,
                                     const LayerRules& rules);

// Checks extents of files one after the other. Each is planned once.
class ExtentCheck {
 public:
  // `spec` and `rules` must outlive it. Errors: as Planner::Build, for the job itself.
  static absl::StatusOr<std::unique_ptr<ExtentCheck>> Create(const JobSpec& spec, const LayerRules& rules);

  // True where the job evaluates or predicts whole volumes of this data set.
  static bool Concerns(const JobSpec& spec, const Dataset& dataset);
  // False where a layer is a user's own, which another program knows.
  static bool KnowsAllLayers(const JobSpec& spec, const LayerRules& rules);

  // `file`: the sample's, for the message. Errors: kInvalidArgument, with the file, its extents and the layer.
  absl::Status Check(const std::string& dataset, const std::string& file, const std::vector<int64_t>& extents);

 private:
  ExtentCheck(Plan plan, const LayerRules& rules) : plan_(std::move(plan)), rules_(rules) {}

  const Plan plan_;
  const LayerRules& rules_;
  std::set<std::pair<std::string, std::vector<int64_t>>> checked_;  // by data set
};

}  // namespace adjoin

#endif  // ADJOIN_PLANNER_PLAN_EXTENT_PLAN_H_
