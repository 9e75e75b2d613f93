#include "cli/completed_names.h"

#include <stdlib.h>

#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "cli/text.h"
#include "proto/coordinator.pb.h"

namespace adjoin {

absl::Duration CompletionPatience() {
  const char* const text = getenv("ADJOIN_COMPLETION_SECONDS");
  double seconds = 0;
  const bool given = text != nullptr && absl::SimpleAtod(text, &seconds) && seconds > 0 && seconds <= 60;
  return absl::Seconds(given ? seconds : 1);
}

std::vector<Suggestion> JobSuggestions(const ClientOptions& options) {
  const absl::StatusOr<ListJobsResponse> list = CoordinatorClient(options).ListJobs();
  if (!list.ok()) return {};
  std::vector<Suggestion> suggestions;
  for (const JobSummary& job : list->job()) {
    const std::string state = StateName(job.state());
    suggestions.push_back({job.job_id(), absl::StrCat(job.name(), ", ", state)});
    suggestions.push_back({job.name(), absl::StrCat(job.job_id(), ", ", state)});
  }
  return suggestions;
}

std::vector<Suggestion> TokenSuggestions(const ClientOptions& options) {
  const absl::StatusOr<ListTokensResponse> list = CoordinatorClient(options).ListTokens();
  if (!list.ok()) return {};
  std::vector<Suggestion> suggestions;
  for (const TokenSummary& token : list->token()) {
    suggestions.push_back({token.id(), absl::StrCat(token.user(), ", ", token.role())});
  }
  return suggestions;
}

}  // namespace adjoin
