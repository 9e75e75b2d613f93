#include "layers/plan/weights_check.h"

#include <string>

#include "layers/plan/name_check.h"
#include "layers/plan/spec_error.h"

namespace adjoin {

absl::Status CheckWeights(const JobSpec& spec) {
  if (!spec.has_weights()) {
    if (spec.kind() == TRAIN) return absl::OkStatus();
    return AtField("kind", InvalidSpec("weights is missing: a job of kind ", Kind_Name(spec.kind()),
                       " needs the trained ones; write weights { init_from: ... }"));
  }
  if (spec.weights().has_strict() && !spec.weights().strict()) {
    return AtField("weights.strict", NotSupportedYet("weights.strict: false", "every parameter must be in the file"));
  }
  if (spec.weights().init_from().empty()) {
    return AtField("weights", InvalidSpec("weights.init_from is missing: the file to start from"));
  }
  return CheckPath("weights.init_from", "--data-root", spec.weights().init_from());
}

}  // namespace adjoin
