// Checks the data sets of a job. Does not look at the files.
#ifndef ADJOIN_PLANNER_CHECKS_DATASET_CHECK_H_
#define ADJOIN_PLANNER_CHECKS_DATASET_CHECK_H_

#include "absl/status/status.h"
#include "proto/job.pb.h"

namespace adjoin {

// Errors: kInvalidArgument and kUnimplemented, at the field (spec_error.h).
absl::Status CheckDatasets(const JobSpec& spec);

}  // namespace adjoin

#endif  // ADJOIN_PLANNER_CHECKS_DATASET_CHECK_H_
