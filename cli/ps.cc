#include <algorithm>
#include <cstdint>
#include <iostream>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/status_macros.h"
#include "base/text_table.h"
#include "cli/color.h"
#include "cli/commands.h"
#include "cli/job_list.h"
#include "cli/terminal.h"
#include "cli/text.h"
#include "cli/worker_rows.h"

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

// A page is printed when it has come, so that no number of jobs is too large.
absl::StatusOr<int> PrintAllPages(CoordinatorClient& client, const PsOptions& ps, Format format) {
  std::set<std::string> shown;
  ADJOIN_RETURN_IF_ERROR(ForEachPage(client, ps, [&](ListJobsResponse page) {
    auto again = [&](const JobSummary& job) { return !shown.insert(job.job_id()).second; };
    auto* jobs = page.mutable_job();
    jobs->erase(std::remove_if(jobs->begin(), jobs->end(), again), jobs->end());
    std::cout << FormattedItem(page, format) << std::flush;
  }));
  return 0;
}

std::string LeftOutLine(const ListJobsResponse& list, const PsOptions& ps) {
  if (list.next_page_token().empty()) return "";
  const uint64_t shown = static_cast<uint64_t>(list.job_size());
  const uint64_t more = std::max<uint64_t>(list.total_jobs(), shown + 1) - shown;
  return absl::StrCat(more, more == 1 ? " older job that has ended is" : " older jobs that have ended are",
                      " not shown; `adjoin ps --all", ps.owner.empty() ? "" : absl::StrCat(" --owner ", ps.owner),
                      "` shows all\n");
}

std::string Table(const ListJobsResponse& list, const PsOptions& ps) {
  std::string text;
  if (!list.notice().empty()) absl::StrAppend(&text, "coordinator: ", list.notice(), "\n\n");
  absl::StrAppend(&text, list.job().empty() ? "no jobs\n" : TextTable(JobRows(list)), LeftOutLine(list, ps), "\n");
  absl::StrAppend(&text, list.worker().empty() ? "no workers\n" : TextTable(WorkerRows(list)));
  return text;
}

std::string Ids(const ListJobsResponse& list) {
  std::string text;
  for (const JobSummary& job : list.job()) absl::StrAppend(&text, job.job_id(), "\n");
  return text;
}

}  // namespace

absl::StatusOr<int> RunPs(const CommandOptions& options, const PsOptions& ps) {
  CoordinatorClient client(options.client);
  if (ps.all && options.format != Format::kTable && !ps.ids_only && ps.watch_seconds == 0) {
    return PrintAllPages(client, ps, options.format);
  }
  while (std::cout) {
    ADJOIN_ASSIGN_OR_RETURN(const ListJobsResponse list, ps.all ? ListAll(client, ps) : ListNewest(client, ps));
    std::string text = ps.ids_only                        ? Ids(list)
                       : options.format != Format::kTable ? Formatted(list, options.format)
                                                          : Table(list, ps);
    const int width = TerminalWidth();
    if (options.format == Format::kTable) text = CutLines(text, static_cast<size_t>(width));
    const bool paint = options.color && options.format == Format::kTable && !ps.ids_only;
    if (ps.watch_seconds > 0 && width > 0) {
      std::cout << "\x1b[H\x1b[2J";  // in the place of what was there
      text = FirstLines(text, static_cast<size_t>(std::max(TerminalHeight() - 1, 1)));
    }
    std::cout << (paint ? PaintStates(text) : text) << std::flush;
    if (ps.watch_seconds == 0) break;
    absl::SleepFor(absl::Seconds(ps.watch_seconds));
  }
  return 0;
}

}  // namespace adjoin
