// Checks `restart` and `resources` of a job.
//
//   ADJOIN_RETURN_IF_ERROR(CheckRuns(spec));
#ifndef ADJOIN_PLANNER_CHECKS_RUN_CHECK_H_
#define ADJOIN_PLANNER_CHECKS_RUN_CHECK_H_

#include "absl/status/status.h"
#include "proto/job.pb.h"

namespace adjoin {

// Errors: kInvalidArgument, with the field (spec_error.h).
absl::Status CheckRuns(const JobSpec& spec);

}  // namespace adjoin

#endif  // ADJOIN_PLANNER_CHECKS_RUN_CHECK_H_
