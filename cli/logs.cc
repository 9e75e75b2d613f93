#include <iostream>

#include "base/status_macros.h"
#include "cli/commands.h"
#include "cli/coordinator_client.h"

namespace adjoin {

absl::StatusOr<int> RunLogs(const std::string& coordinator, const std::string& job, const std::vector<uint32_t>& ranks,
                            bool follow) {
  CoordinatorClient client(coordinator);
  ADJOIN_RETURN_IF_ERROR(client.ReadLogs(job, ranks, follow, [follow](const LogLine& line) {
    std::cout << "rank " << line.rank() << ": " << line.text() << "\n";
    if (follow) std::cout.flush();
  }));
  std::cout << std::flush;
  return 0;
}

}  // namespace adjoin
