#include "coordinator/decisions/job_page.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/printable_text.h"
#include "proto/message_limits.h"
#include "proto/protocol.h"

namespace adjoin {
namespace {

constexpr size_t kMaxTokenShown = 64;
constexpr char kUnended[] = "unended";
constexpr char kEnded[] = "ended";

}  // namespace

std::string PageToken(const ListPlace& last) {
  if (last.ended) return absl::StrCat(kEnded, ":", last.number);
  return absl::StrCat(kUnended, ":", last.priority, ":", last.number);
}

absl::StatusOr<ListPlace> ReadPageToken(const std::string& token) {
  const std::vector<std::string> part = absl::StrSplit(token, ':');
  ListPlace place;
  place.ended = part[0] == kEnded;
  const bool has_parts = place.ended ? part.size() == 2 : part[0] == kUnended && part.size() == 3;
  const bool reads = has_parts && absl::SimpleAtoi(part.back(), &place.number) &&
                     (place.ended || absl::SimpleAtoi(part[1], &place.priority));
  // What reads but is written otherwise ("+1") is none either.
  if (reads && PageToken(place) == token) return place;
  return absl::InvalidArgumentError(absl::StrCat(
      "page_token '", PrintableText(token, kMaxTokenShown),
      "' is none that a coordinator gave: give next_page_token of the page before, or none for the first"));
}

absl::StatusOr<JobPage> JobPage::Begin(const ListJobsRequest& request) {
  JobPage page;
  *page.response_.mutable_header() = MakeHeader();
  page.owner_ = request.owner();
  for (const int state : request.state()) {
    if (!JobState_IsValid(state) || state == JOB_STATE_UNSPECIFIED) {
      return absl::InvalidArgumentError(
          absl::StrCat("state ", state, " is no state of a job: those are 1 (PENDING) to 6 (CANCELLED)"));
    }
    page.state_.insert(static_cast<JobState>(state));
  }
  page.most_jobs_ = request.page_size() == 0 ? kMaxPageJobs : std::min<size_t>(request.page_size(), kMaxPageJobs);
  if (!request.page_token().empty()) {
    absl::StatusOr<ListPlace> after = ReadPageToken(request.page_token());
    if (!after.ok()) return after.status();
    page.after_ = *after;
    page.workers_done_ = true;
  }
  return page;
}

bool JobPage::Wants(const JobRecord& job) const {
  return job.accepted && (owner_.empty() || job.owner == owner_) && (state_.empty() || state_.count(job.state) > 0);
}

bool JobPage::IsFull(size_t bytes) const {
  const size_t jobs = static_cast<size_t>(response_.job_size());
  return jobs >= most_jobs_ || (jobs > 0 && job_bytes_ + bytes > kMaxPageBytes);
}

ListJobsResponse JobPage::Take() {
  if (workers_left_out_ > 0) {
    const std::string more =
        absl::StrCat(workers_left_out_, " more workers are not listed: they are too many for one answer");
    response_.set_notice(response_.notice().empty() ? more : absl::StrCat(response_.notice(), "; ", more));
  }
  return std::move(response_);
}

}  // namespace adjoin
