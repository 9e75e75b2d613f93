// What all programs of a job are built with, made from its spec.
//
//   ADJOIN_ASSIGN_OR_RETURN(const std::unique_ptr<JobContext> job, JobContext::Create(spec, rules));
//   ProgramBuilder builder(job->context(), request, &ids, &plan);
#ifndef ADJOIN_PLANNER_PLAN_JOB_CONTEXT_H_
#define ADJOIN_PLANNER_PLAN_JOB_CONTEXT_H_

#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "base/status_macros.h"
#include "layers/attention/block_expansion.h"
#include "layers/rules/compute_type.h"
#include "layers/rules/layer_rule.h"
#include "layers/rules/named_layouts.h"
#include "planner/plan/program_builder.h"
#include "proto/job.pb.h"

namespace adjoin {

class JobContext {
 public:
  // `rules` must outlive it. Errors: as ExpandBlocks, NamedLayouts::Create and NumberTypesOf.
  static absl::StatusOr<std::unique_ptr<JobContext>> Create(const JobSpec& spec, const LayerRules& rules) {
    ADJOIN_ASSIGN_OR_RETURN(ExpandedSpec expanded, ExpandBlocks(spec));
    auto layouts = NamedLayouts::Create(expanded.spec);
    if (!layouts.ok()) return expanded.AtUsersLayer(spec, layouts.status());
    const auto types = NumberTypesOf(expanded.spec);
    if (!types.ok()) return expanded.AtUsersLayer(spec, types.status());
    return std::unique_ptr<JobContext>(new JobContext(std::move(expanded), *std::move(layouts), *types, rules));
  }
  JobContext(const JobContext&) = delete;
  JobContext& operator=(const JobContext&) = delete;

  // The job without blocks of layers.
  const JobSpec& spec() const { return expanded_.spec; }
  // Valid while this lives.
  PlanContext context() const {
    return {.spec = expanded_.spec,
            .layouts = layouts_,
            .rules = rules_,
            .dtype = types_.compute,
            .parameter_dtype = types_.parameters,
            .complete_layer = [this](int index, const PlanContext::ShapeOf& shape_of, Layer* layer) {
              return expanded_.CompleteLayer(index, shape_of, layer);
            }};
  }
  absl::Status AtUsersLayer(const JobSpec& user, const absl::Status& status) const {
    return expanded_.AtUsersLayer(user, status);
  }

 private:
  JobContext(ExpandedSpec expanded, NamedLayouts layouts, NumberTypes types, const LayerRules& rules)
      : expanded_(std::move(expanded)), layouts_(std::move(layouts)), types_(types), rules_(rules) {}

  const ExpandedSpec expanded_;
  const NamedLayouts layouts_;
  const NumberTypes types_;
  const LayerRules& rules_;
};

}  // namespace adjoin

#endif  // ADJOIN_PLANNER_PLAN_JOB_CONTEXT_H_
