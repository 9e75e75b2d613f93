// Checks `weights` of a job: the weights to start from. A job that does not train needs them.
#ifndef ADJOIN_PLANNER_CHECKS_WEIGHTS_CHECK_H_
#define ADJOIN_PLANNER_CHECKS_WEIGHTS_CHECK_H_

#include "absl/status/status.h"
#include "proto/job.pb.h"

namespace adjoin {

// Errors: kInvalidArgument and kUnimplemented, at the field (spec_error.h).
absl::Status CheckWeights(const JobSpec& spec);

}  // namespace adjoin

#endif  // ADJOIN_PLANNER_CHECKS_WEIGHTS_CHECK_H_
