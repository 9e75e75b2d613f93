#include "planner/checks/weights_check.h"

#include <string>

#include "base/status_macros.h"
#include "layers/rules/spec_error.h"
#include "planner/checks/name_check.h"

namespace adjoin {

absl::Status CheckWeights(const JobSpec& spec) {
  if (!spec.has_weights()) {
    if (spec.kind() == TRAIN) return absl::OkStatus();
    return AtField("kind", InvalidSpec("weights is missing: a job of kind ", Kind_Name(spec.kind()),
                                       " needs the trained ones; write weights { init_from: ... }"));
  }
  const Weights& weights = spec.weights();
  if (weights.init_from().empty() && weights.from_output().empty()) {
    return AtField("weights",
                   InvalidSpec("weights.init_from is missing: the file to start from; or from_output, what a job"
                               " has written"));
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
