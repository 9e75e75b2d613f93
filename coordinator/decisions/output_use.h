// Which job an output_dir belongs to: one that has not ended, or the last that left something in it. A job that ended
// before it wrote anything, and one whose results another job has replaced, keep no other from the folder.
//
//   const std::optional<OutputUse> use = jobs.UseOf("lenet5");
//   ADJOIN_RETURN_IF_ERROR(CheckUnused(use, "lenet5", /*replace=*/false));    // kFailedPrecondition: names job-3
#ifndef ADJOIN_COORDINATOR_DECISIONS_OUTPUT_USE_H_
#define ADJOIN_COORDINATOR_DECISIONS_OUTPUT_USE_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "coordinator/decisions/job_record.h"

namespace adjoin {

struct OutputUse {
  uint64_t job = 0;
  JobState state = JOB_STATE_UNSPECIFIED;  // unspecified: the job is forgotten, and left something
};

// True where the job's attempts have done something that is worth keeping: a step, a checkpoint or a result.
bool LeftResults(const JobRecord& job);

// Checks that a new job may write to a folder. `replace`: it may take the place of what an ended job left.
// Errors: kFailedPrecondition, with the job and what would be right.
absl::Status CheckUnused(const std::optional<OutputUse>& use, const std::string& folder, bool replace);

}  // namespace adjoin

#endif  // ADJOIN_COORDINATOR_DECISIONS_OUTPUT_USE_H_
