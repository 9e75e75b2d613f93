// What a shell completes as the name of a job or a token: asked from the coordinator, quietly nothing where that fails.
#ifndef ADJOIN_CLI_COMPLETED_NAMES_H_
#define ADJOIN_CLI_COMPLETED_NAMES_H_

#include <vector>

#include "absl/time/time.h"
#include "base/completion.h"
#include "cli/coordinator_client.h"

namespace adjoin {

// How long a person at the keyboard waits: a coordinator that is slow or away is as one without jobs. One second, or
// ADJOIN_COMPLETION_SECONDS (up to 60), for one that is far.
absl::Duration CompletionPatience();

// The ids and the names of the jobs on the coordinator's first page, the newest first.
std::vector<Suggestion> JobSuggestions(const ClientOptions& options);

// The ids of the tokens, with their users.
std::vector<Suggestion> TokenSuggestions(const ClientOptions& options);

}  // namespace adjoin

#endif  // ADJOIN_CLI_COMPLETED_NAMES_H_
