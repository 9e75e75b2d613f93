// Checks `train` of a job. A job of kind TRAIN needs it.
#ifndef ADJOIN_PLANNER_CHECKS_TRAIN_CHECK_H_
#define ADJOIN_PLANNER_CHECKS_TRAIN_CHECK_H_

#include "absl/status/status.h"
#include "proto/job.pb.h"

namespace adjoin {

// Errors: kInvalidArgument and kUnimplemented, at the field (spec_error.h).
absl::Status CheckTrain(const JobSpec& spec);

}  // namespace adjoin

#endif  // ADJOIN_PLANNER_CHECKS_TRAIN_CHECK_H_
