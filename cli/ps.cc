#include <iostream>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/status_macros.h"
#include "cli/commands.h"
#include "cli/coordinator_client.h"
#include "cli/text.h"

namespace adjoin {
namespace {

std::string AgeText(int64_t unix_ms) {
  return DurationText(absl::ToDoubleSeconds(absl::Now() - absl::FromUnixMillis(unix_ms)));
}

}  // namespace

absl::StatusOr<int> RunPs(const std::string& coordinator) {
  CoordinatorClient client(coordinator);
  ADJOIN_ASSIGN_OR_RETURN(ListJobsResponse list, client.ListJobs());
  std::vector<std::vector<std::string>> jobs = {{"JOB", "NAME", "STATE", "RANKS", "SUBMITTED", "PROGRESS", "REASON"}};
  for (const JobSummary& job : list.job()) {
    std::string state = StateName(job.state());
    if (job.queue_position() > 0) absl::StrAppend(&state, " (", job.queue_position(), ")");
    jobs.push_back({job.job_id(), job.name(), state, absl::StrCat(job.ranks()), AgeText(job.submitted_unix_ms()) + " ago",
                    job.state() == SUCCEEDED ? "" : ProgressText(job.progress()), job.reason()});
  }
  std::cout << (list.job().empty() ? "no jobs\n" : Table(jobs)) << "\n";
  std::vector<std::vector<std::string>> workers = {{"WORKER", "ADDRESS", "SLOTS", "FREE"}};
  for (const WorkerSummary& worker : list.worker()) {
    workers.push_back({worker.name(), worker.address(), absl::StrCat(worker.slots()), absl::StrCat(worker.free_slots())});
  }
  std::cout << (list.worker().empty() ? "no workers\n" : Table(workers)) << std::flush;
  return 0;
}

}  // namespace adjoin
