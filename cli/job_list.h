// The jobs and workers that the coordinator knows, page by page.
//
//   ADJOIN_ASSIGN_OR_RETURN(const ListJobsResponse list, ListNewest(client, ps));
//
// Errors of all functions: the client's.
#ifndef ADJOIN_CLI_JOB_LIST_H_
#define ADJOIN_CLI_JOB_LIST_H_

#include <functional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cli/commands.h"
#include "cli/coordinator_client.h"
#include "proto/coordinator.pb.h"

namespace adjoin {

// The jobs that have not ended, and the newest of the others. Its next_page_token is that of the first job that is left
// out.
absl::StatusOr<ListJobsResponse> ListNewest(CoordinatorClient& client, const PsOptions& ps);

// All jobs that `ps` asks for.
absl::StatusOr<ListJobsResponse> ListAll(CoordinatorClient& client, const PsOptions& ps);

// The same, handed out in pages of the coordinator's size. A job that ended between two pages is on both.
absl::Status ForEachPage(CoordinatorClient& client, const PsOptions& ps,
                         const std::function<void(ListJobsResponse)>& on_page);

}  // namespace adjoin

#endif  // ADJOIN_CLI_JOB_LIST_H_
