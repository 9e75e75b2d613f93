// Refuses text of a job that could not be shown as it is: in listings, in the log, on other users' terminals.
//
//   output_dir: "a\nb"     // in the spec: "output_dir is "a\nb"; text of a job has no control characters ..."
#ifndef ADJOIN_PLANNER_CHECKS_TEXT_CHECK_H_
#define ADJOIN_PLANNER_CHECKS_TEXT_CHECK_H_

#include "absl/status/status.h"
#include "proto/job.pb.h"

namespace adjoin {

// Every text of the job, by reflection, is printable (base/printable_text.h), without a tab, and at most kMaxPathBytes
// long; a name at most kMaxNameBytes. Errors: kInvalidArgument, at the field.
absl::Status CheckTexts(const JobSpec& spec);

}  // namespace adjoin

#endif  // ADJOIN_PLANNER_CHECKS_TEXT_CHECK_H_
