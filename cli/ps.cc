#include <algorithm>
#include <cstdint>
#include <functional>
#include <iostream>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/amount_text.h"
#include "base/status_macros.h"
#include "base/text_table.h"
#include "cli/commands.h"
#include "cli/terminal.h"
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

constexpr JobState kUnended[] = {PENDING, STARTING, RUNNING};
constexpr JobState kEnded[] = {SUCCEEDED, FAILED, CANCELLED};

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

std::string MemoryText(const WorkerSummary& worker, uint64_t bytes) {
  return worker.memory_bytes() == 0 ? "?" : BytesText(static_cast<int64_t>(bytes));
}

Rows WorkerRows(const ListJobsResponse& list) {
  Rows rows = {{"WORKER", "ADDRESS", "SLOTS", "FREE", "STATE", "HEARTBEAT"}};
  const bool unfit = std::any_of(list.worker().begin(), list.worker().end(),
                                 [](const WorkerSummary& worker) { return !worker.condition().empty(); });
  const bool gpus = std::any_of(list.worker().begin(), list.worker().end(),
                                [](const WorkerSummary& worker) { return worker.gpus() > 0; });
  if (gpus) rows[0].insert(rows[0].begin() + 4, {"GPUS", "FREE"});
  const bool memory = std::any_of(list.worker().begin(), list.worker().end(),
                                  [](const WorkerSummary& worker) { return worker.memory_bytes() > 0; });
  if (memory) rows[0].insert(rows[0].begin() + 4, {"MEMORY", "FREE"});
  if (unfit) rows[0].push_back("CONDITION");
  for (const WorkerSummary& worker : list.worker()) {
    rows.push_back({worker.name(), worker.address(), absl::StrCat(worker.slots()), absl::StrCat(worker.free_slots()),
                    worker.state(), DurationText(worker.heartbeat_age_seconds()) + " ago"});
    if (gpus) {
      rows.back().insert(rows.back().begin() + 4, {absl::StrCat(worker.gpus()), absl::StrCat(worker.free_gpus())});
    }
    if (memory) {
      rows.back().insert(rows.back().begin() + 4,
                         {MemoryText(worker, worker.memory_bytes()), MemoryText(worker, worker.free_memory_bytes())});
    }
    if (unfit) rows.back().push_back(worker.condition());
  }
  return rows;
}

// Sets in the request those of `states` that the user asks for; false where there are none.
template <size_t n>
bool Choose(const JobState (&states)[n], const PsOptions& ps, ListJobsRequest& request) {
  for (const JobState state : states) {
    const std::string name = absl::AsciiStrToLower(JobState_Name(state));
    const bool wanted = ps.states.empty() || std::find(ps.states.begin(), ps.states.end(), name) != ps.states.end();
    if (wanted) request.add_state(state);
  }
  return !request.state().empty();
}

using OnPage = std::function<void(ListJobsResponse)>;

absl::Status ReadPages(CoordinatorClient& client, ListJobsRequest request, const OnPage& on_page) {
  do {
    ADJOIN_ASSIGN_OR_RETURN(ListJobsResponse page, client.ListJobs(request));
    request.set_page_token(page.next_page_token());
    on_page(std::move(page));
  } while (!request.page_token().empty());
  return absl::OkStatus();
}

// Moves a page into `list`. Of a job that ended between two pages, and so is on both, the later page counts.
class Merge {
 public:
  explicit Merge(ListJobsResponse& list) : list_(list) {}
  void operator()(ListJobsResponse page) {
    for (JobSummary& job : *page.mutable_job()) {
      auto [known, is_new] = index_.try_emplace(job.job_id(), list_.job_size());
      (is_new ? *list_.add_job() : *list_.mutable_job(known->second)) = std::move(job);
    }
    if (list_.worker().empty()) list_.mutable_worker()->Swap(page.mutable_worker());
    if (list_.notice().empty()) list_.set_notice(page.notice());
  }

 private:
  ListJobsResponse& list_;
  std::map<std::string, int> index_;  // in list_, by job
};

bool SubmittedBefore(const JobSummary& a, const JobSummary& b) {
  if (a.submitted_unix_ms() != b.submitted_unix_ms()) return a.submitted_unix_ms() < b.submitted_unix_ms();
  if (a.job_id().size() != b.job_id().size()) return a.job_id().size() < b.job_id().size();
  return a.job_id() < b.job_id();
}

// Jobs that have not ended come first, in the order of submission ("job-9" is before "job-10"); then the others, newest
// first.
bool ShownBefore(const JobSummary& a, const JobSummary& b) {
  if (IsFinalState(a.state()) != IsFinalState(b.state())) return IsFinalState(b.state());
  if (IsFinalState(a.state())) return SubmittedBefore(b, a);
  return SubmittedBefore(a, b);
}

// The jobs that have not ended, and the newest of the others. Its next_page_token is that of the first job that is left
// out.
absl::StatusOr<ListJobsResponse> ListNewest(CoordinatorClient& client, const PsOptions& ps) {
  ListJobsResponse list;
  Merge merge(list);
  ListJobsRequest unended, ended;
  unended.set_owner(ps.owner);
  ended.set_owner(ps.owner);
  if (Choose(kUnended, ps, unended)) {
    uint64_t total = 0;
    ADJOIN_RETURN_IF_ERROR(ReadPages(client, unended, [&](ListJobsResponse page) {
      total = page.total_jobs();
      merge(std::move(page));
    }));
    list.set_total_jobs(total);
  }
  if (Choose(kEnded, ps, ended)) {
    ended.set_page_size(ps.limit);
    ADJOIN_ASSIGN_OR_RETURN(ListJobsResponse page, client.ListJobs(ended));
    list.set_total_jobs(list.total_jobs() + page.total_jobs());
    list.set_next_page_token(page.next_page_token());
    merge(std::move(page));
  }
  std::sort(list.mutable_job()->begin(), list.mutable_job()->end(), ShownBefore);
  return list;
}

absl::StatusOr<ListJobsResponse> ListAll(CoordinatorClient& client, const PsOptions& ps) {
  ListJobsResponse list;
  ListJobsRequest request;
  request.set_owner(ps.owner);
  Choose(kUnended, ps, request);
  Choose(kEnded, ps, request);
  ADJOIN_RETURN_IF_ERROR(ReadPages(client, request, Merge(list)));
  list.set_total_jobs(static_cast<uint64_t>(list.job_size()));
  std::sort(list.mutable_job()->begin(), list.mutable_job()->end(), ShownBefore);
  return list;
}

// A page is printed when it has come, so that no number of jobs is too large.
absl::StatusOr<int> PrintAllPages(CoordinatorClient& client, const PsOptions& ps, Format format) {
  ListJobsRequest request;
  request.set_owner(ps.owner);
  Choose(kUnended, ps, request);
  Choose(kEnded, ps, request);
  std::set<std::string> shown;
  ADJOIN_RETURN_IF_ERROR(ReadPages(client, request, [&](ListJobsResponse page) {
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
    if (ps.watch_seconds > 0 && width > 0) {
      std::cout << "\x1b[H\x1b[2J";  // in the place of what was there
      text = FirstLines(text, static_cast<size_t>(std::max(TerminalHeight() - 1, 1)));
    }
    std::cout << text << std::flush;
    if (ps.watch_seconds == 0) break;
    absl::SleepFor(absl::Seconds(ps.watch_seconds));
  }
  return 0;
}

}  // namespace adjoin
