// Refuses every field of a job that is written and not built yet, by its name. A list of what is built, not of what is
// not: a field that is added to job.proto is refused until somebody builds it.
#ifndef ADJOIN_PLANNER_CHECKS_SUPPORTED_FIELDS_H_
#define ADJOIN_PLANNER_CHECKS_SUPPORTED_FIELDS_H_

#include "absl/status/status.h"
#include "layers/rules/layer_rule.h"
#include "proto/job.pb.h"

namespace adjoin {

// Of Layer.op, what `rules` knows is built.
// Errors: kUnimplemented, at the field.
absl::Status CheckSupportedFields(const JobSpec& spec, const LayerRules& rules);

}  // namespace adjoin

#endif  // ADJOIN_PLANNER_CHECKS_SUPPORTED_FIELDS_H_
