// Checks what a job contains apart from its tensors' shapes: names, references, ranges of numbers, fields that are not
// built.
#ifndef ADJOIN_PLANNER_CHECKS_SPEC_CHECK_H_
#define ADJOIN_PLANNER_CHECKS_SPEC_CHECK_H_

#include <cstdint>

#include "absl/status/status.h"
#include "layers/rules/layer_rule.h"
#include "proto/job.pb.h"

namespace adjoin {

// Errors: kInvalidArgument and kUnimplemented, at the field.
absl::Status CheckSpec(const JobSpec& spec, const LayerRules& rules, uint32_t max_ranks);

}  // namespace adjoin

#endif  // ADJOIN_PLANNER_CHECKS_SPEC_CHECK_H_
