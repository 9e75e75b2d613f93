#include <algorithm>
#include <iostream>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/status_macros.h"
#include "base/text_table.h"
#include "cli/commands.h"
#include "cli/text.h"

namespace adjoin {
namespace {

using Rows = std::vector<std::vector<std::string>>;

std::string AgeText(int64_t unix_ms) {
  return DurationText(absl::ToDoubleSeconds(absl::Now() - absl::FromUnixMillis(unix_ms)));
}

// "pending (2)" is second in the queue.
std::string StateText(const JobSummary& job) {
  std::string state = StateName(job.state());
  if (job.held()) return state + " (held)";
  if (job.queue_position() > 0) absl::StrAppend(&state, " (", job.queue_position(), ")");
  return state;
}

// How often it was started again; those that count against max_restarts in brackets.
std::string RestartsText(const JobSummary& job) {
  if (job.attempts() <= 1) return "0";
  return absl::StrCat(job.attempts() - 1, " (", job.restarts_counted(), ")");
}

Rows JobRows(const ListJobsResponse& list) {
  const bool owned =
      std::any_of(list.job().begin(), list.job().end(), [](const JobSummary& job) { return !job.owner().empty(); });
  Rows rows = {{"JOB", "NAME", "STATE", "PRIORITY", "RANKS", "RESTARTS", "SUBMITTED", "PROGRESS", "REASON"}};
  if (owned) rows[0].insert(rows[0].begin() + 2, "OWNER");
  for (const JobSummary& job : list.job()) {
    rows.push_back({job.job_id(), job.name(), StateText(job), absl::StrCat(job.priority()), absl::StrCat(job.ranks()),
                    RestartsText(job), AgeText(job.submitted_unix_ms()) + " ago",
                    job.state() == SUCCEEDED ? "" : ProgressText(job.progress()), job.reason()});
    if (owned) rows.back().insert(rows.back().begin() + 2, job.owner());
  }
  return rows;
}

Rows WorkerRows(const ListJobsResponse& list) {
  Rows rows = {{"WORKER", "ADDRESS", "SLOTS", "FREE", "STATE", "HEARTBEAT"}};
  for (const WorkerSummary& worker : list.worker()) {
    rows.push_back({worker.name(), worker.address(), absl::StrCat(worker.slots()), absl::StrCat(worker.free_slots()),
                    worker.state(), DurationText(worker.heartbeat_age_seconds()) + " ago"});
  }
  return rows;
}

}  // namespace

absl::StatusOr<int> RunPs(const CommandOptions& options) {
  CoordinatorClient client(options.client);
  ADJOIN_ASSIGN_OR_RETURN(ListJobsResponse list, client.ListJobs());
  if (options.format != Format::kTable) {
    std::cout << Formatted(list, options.format) << std::flush;
    return 0;
  }
  std::cout << (list.job().empty() ? "no jobs\n" : TextTable(JobRows(list))) << "\n";
  std::cout << (list.worker().empty() ? "no workers\n" : TextTable(WorkerRows(list))) << std::flush;
  return 0;
}

}  // namespace adjoin
