// Refuses every field of a job that is part of job.proto and not built yet, by its name.
//
//   message Resources { double cpus = 1 [(planned) = true]; }        // in job.proto
//   CheckSupportedFields(spec, rules);    // "resources.cpus is not supported yet"
#ifndef ADJOIN_PLANNER_CHECKS_SUPPORTED_FIELDS_H_
#define ADJOIN_PLANNER_CHECKS_SUPPORTED_FIELDS_H_

#include "absl/status/status.h"
#include "layers/rules/layer_rule.h"
#include "proto/job.pb.h"

namespace adjoin {

// Refuses each field that is set and marked (planned), each value of an enum that is marked (planned_value), and each
// alternative of Layer.op without a rule in `rules`.
// Errors: kUnimplemented, at the field.
absl::Status CheckSupportedFields(const JobSpec& spec, const LayerRules& rules);

}  // namespace adjoin

#endif  // ADJOIN_PLANNER_CHECKS_SUPPORTED_FIELDS_H_
