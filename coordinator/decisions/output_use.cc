#include "coordinator/decisions/output_use.h"

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace adjoin {
namespace {

constexpr char kOther[] = "choose another output_dir, or leave it out for a folder of the job's own";

}  // namespace

bool LeftResults(const JobRecord& job) {
  if (job.attempt.epoch == 0 || job.replaced_by != 0) return false;
  return job.state == SUCCEEDED || job.has_checkpoint || job.history.best_step > 0 || job.progress.step() > 0 ||
         !job.artifacts.empty() || job.artifacts_left_out > 0;
}

absl::Status CheckUnused(const std::optional<OutputUse>& use, const std::string& folder, bool replace) {
  if (!use.has_value()) return absl::OkStatus();
  const std::string job = absl::StrCat("job-", use->job);
  const bool forgotten = use->state == JOB_STATE_UNSPECIFIED;
  if (!forgotten && !IsFinal(use->state)) {
    return absl::FailedPreconditionError(absl::StrCat(
        "output_dir \"", folder, "\" is that of ", job, ", which is ", absl::AsciiStrToLower(JobState_Name(use->state)),
        " and has not ended: ", kOther, "; or wait for ", job, ", or cancel it"));
  }
  if (replace) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("output_dir \"", folder, "\" has what ", job, " wrote (",
                   forgotten ? "it is not listed any more" : absl::AsciiStrToLower(JobState_Name(use->state)),
                   "): ", kOther, "; or submit with --replace, and this job's results take the place of ", job, "'s"));
}

}  // namespace adjoin
