// All that is known of a job, as text for people: `adjoin describe`, and the details in `adjoin top`.
//
//   ADJOIN_ASSIGN_OR_RETURN(const RestartCauses causes, CausesOf(client, described.job()));
//   std::cout << DescriptionText(described, causes);
#ifndef ADJOIN_CLI_JOB_DESCRIPTION_H_
#define ADJOIN_CLI_JOB_DESCRIPTION_H_

#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "cli/coordinator_client.h"
#include "proto/coordinator.pb.h"

namespace adjoin {

// How often a job was restarted after each cause, since its submission or its last retry.
using RestartCauses = std::map<std::string, int>;

// None of a job with one attempt. Errors: the client's.
absl::StatusOr<RestartCauses> CausesOf(CoordinatorClient& client, const JobSummary& job);

std::string DescriptionText(const DescribeJobResponse& described, const RestartCauses& causes);

}  // namespace adjoin

#endif  // ADJOIN_CLI_JOB_DESCRIPTION_H_
