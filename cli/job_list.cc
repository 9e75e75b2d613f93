#include "cli/job_list.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "base/status_macros.h"
#include "cli/text.h"

namespace adjoin {
namespace {

constexpr JobState kUnended[] = {PENDING, STARTING, RUNNING};
constexpr JobState kEnded[] = {SUCCEEDED, FAILED, CANCELLED};

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

}  // namespace

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
  ADJOIN_RETURN_IF_ERROR(ForEachPage(client, ps, Merge(list)));
  list.set_total_jobs(static_cast<uint64_t>(list.job_size()));
  std::sort(list.mutable_job()->begin(), list.mutable_job()->end(), ShownBefore);
  return list;
}

absl::Status ForEachPage(CoordinatorClient& client, const PsOptions& ps, const OnPage& on_page) {
  ListJobsRequest request;
  request.set_owner(ps.owner);
  Choose(kUnended, ps, request);
  Choose(kEnded, ps, request);
  return ReadPages(client, request, on_page);
}

}  // namespace adjoin
