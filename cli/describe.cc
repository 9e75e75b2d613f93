#include <iostream>
#include <string>

#include "base/status_macros.h"
#include "cli/color.h"
#include "cli/commands.h"
#include "cli/job_description.h"

namespace adjoin {

absl::StatusOr<int> RunDescribe(const CommandOptions& options, const std::string& reference) {
  CoordinatorClient client(options.client);
  ADJOIN_ASSIGN_OR_RETURN(const DescribeJobResponse described, client.DescribeJob(reference));
  if (options.format != Format::kTable) {
    std::cout << Formatted(described, options.format) << std::flush;
    return 0;
  }
  ADJOIN_ASSIGN_OR_RETURN(const RestartCauses causes, CausesOf(client, described.job()));
  const std::string text = DescriptionText(described, causes);
  std::cout << (options.color ? PaintStates(PaintStateAfter("state", text)) : text) << std::flush;
  return 0;
}

}  // namespace adjoin
