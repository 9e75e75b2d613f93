#include "planner/checks/weights_check.h"

#include <cstdint>
#include <limits>
#include <string>
#include <utility>

#include "base/status_macros.h"
#include "layers/rules/spec_error.h"
#include "planner/checks/name_check.h"

namespace adjoin {
namespace {

constexpr uint64_t kMostStep = std::numeric_limits<int64_t>::max();

// Checks the fields that name an earlier job.
absl::Status CheckJob(const Weights& weights) {
  if (weights.from_job().empty()) {
    if (!weights.best() && weights.step() == 0) return absl::OkStatus();
    const std::string field = weights.best() ? "weights.best" : "weights.step";
    return AtField(field, InvalidSpec(field,
                                      " chooses among the checkpoints of weights.from_job, which is missing:"
                                      " the id or the name of a job"));
  }
  for (const auto& [other, set] : {std::pair("weights.init_from", !weights.init_from().empty()),
                                   std::pair("weights.from_output", !weights.from_output().empty())}) {
    if (!set) continue;
    return AtField("weights.from_job", InvalidSpec("weights.from_job stands in place of ", other,
                                                   ", which the job has, too; leave one out"));
  }
  if (weights.step() > kMostStep) {
    return AtField("weights.step", InvalidSpec("weights.step is ", weights.step(), "; it must be at most ", kMostStep));
  }
  if (!weights.best() || weights.step() == 0) return absl::OkStatus();
  return AtField("weights.step", InvalidSpec("weights.best and weights.step name two checkpoints; leave one out"));
}

}  // namespace

absl::Status CheckWeights(const JobSpec& spec) {
  if (!spec.has_weights()) {
    if (spec.kind() == TRAIN) return absl::OkStatus();
    return AtField("kind", InvalidSpec("weights is missing: a job of kind ", Kind_Name(spec.kind()),
                                       " needs the trained ones; write weights { init_from: ... }"));
  }
  const Weights& weights = spec.weights();
  ADJOIN_RETURN_IF_ERROR(CheckJob(weights));
  if (!weights.from_job().empty()) return absl::OkStatus();
  if (weights.init_from().empty() && weights.from_output().empty()) {
    return AtField("weights",
                   InvalidSpec("weights.init_from is missing: the file to start from; or from_output, what a job"
                               " has written; or from_job, the job"));
  }
  if (!weights.init_from().empty() && !weights.from_output().empty()) {
    return AtField("weights.from_output",
                   InvalidSpec("weights.from_output stands in place of weights.init_from, which the"
                               " job has, too; leave one out"));
  }
  ADJOIN_RETURN_IF_ERROR(CheckPath("weights.init_from", "--data-root", weights.init_from()));
  return CheckPath("weights.from_output", "--output-root", weights.from_output());
}

}  // namespace adjoin
