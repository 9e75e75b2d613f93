// Makes a plan, which is what every rank does, from a job's spec. Pure: equal arguments give equal plans, byte for
// byte.
//
//   ADJOIN_ASSIGN_OR_RETURN(Plan plan, Planner::Build(spec, {{"train", 10000}, {"test", 2000}}, BuiltinLayerRules()));
//   std::cout << Planner::Explain(plan);
//   Planner::Hash(plan);   // 32 hexadecimal digits
//
// Programs, in this order, each where it is needed:
//   "train"       Train.batch / Train.microbatches samples; forward and backward
//   "train_tail"  what the micro-batches of an epoch's last batch leave over, unless drop_last
//   "validate"    of Train.validate_on, in batches of at most Evaluate.batch, or Train.batch, samples; forward only
//   "evaluate"    of Evaluate.dataset, likewise
//   "predict"     of Predict.dataset, in batches of at most Predict.batch samples; forward only, without losses
// and "validate_tail", "evaluate_tail", "predict_tail" for the samples left over. There are tails only where the number
// of samples is known. Jobs are checked here and only here. No field of a spec is ignored: one that is not built is
// refused.
#ifndef ADJOIN_PLANNER_PLAN_PLANNER_H_
#define ADJOIN_PLANNER_PLAN_PLANNER_H_

#include <cstdint>
#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "layers/builtin/builtin_rules.h"
#include "layers/rules/layer_rule.h"
#include "planner/spec/spec_locations.h"
#include "proto/job.pb.h"
#include "proto/plan.pb.h"

namespace adjoin {

class PlanReport;

// What the files of a data set hold.
struct SizeInFiles {
  SizeInFiles(int64_t samples = 0, uint64_t extents = 0) : samples(samples), extents(extents) {}  // also implicitly

  int64_t samples;   // the planner applies Dataset.limit
  uint64_t extents;  // DatasetSize.extents
};

// By Dataset.name; absent where it is not known.
using DatasetSizes = std::map<std::string, SizeInFiles>;

class Planner {
 public:
  // The greatest number of ranks of a job.
  static constexpr uint32_t kMaxRanks = 32768;

  // Errors: kInvalidArgument for mistakes in the spec, kUnimplemented for what is not supported yet. The message names
  // the location (layer 3 "conv2", layers counted from 0; with `locations`, job.textproto:14:3 before it), what is
  // wrong, and what would be right.
  static absl::StatusOr<Plan> Build(const JobSpec& spec, const DatasetSizes& sizes, const LayerRules& rules,
                                    const SpecLocations* locations = nullptr);

  // Returns xxHash, 128 bits, of the plan's deterministic serialization. Ranks refuse a plan with another hash.
  static std::string Hash(const Plan& plan);

  // Returns a text for people: a summary; every layer's output shape, layout, halo widths and windows; movements and
  // their bytes; parameters; totals; warnings (plan_warnings.h).
  static std::string Explain(const Plan& plan);
  // The same of a report that was made from the plan (planner/plan/plan_report.h).
  static std::string Explain(const PlanReport& report);
};

}  // namespace adjoin

#endif  // ADJOIN_PLANNER_PLAN_PLANNER_H_
