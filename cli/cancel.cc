#include <iostream>

#include "base/status_macros.h"
#include "cli/commands.h"
#include "cli/coordinator_client.h"
#include "cli/text.h"

namespace adjoin {

absl::StatusOr<int> RunCancel(const std::string& coordinator, const std::string& job) {
  CoordinatorClient client(coordinator);
  ADJOIN_ASSIGN_OR_RETURN(JobState state, client.CancelJob(job));
  std::cout << job << (state == CANCELLED ? " is cancelled" : " had ended already: it " + StateName(state)) << std::endl;
  return 0;
}

}  // namespace adjoin
