#include <iostream>

#include "base/status_macros.h"
#include "cli/commands.h"
#include "cli/coordinator_client.h"
#include "layers/plan/spec_file.h"

namespace adjoin {

absl::StatusOr<int> RunSubmit(const std::string& coordinator, const std::string& spec_file, bool follow) {
  ADJOIN_ASSIGN_OR_RETURN(std::string source, ReadSpecFile(spec_file));
  CoordinatorClient client(coordinator);
  ADJOIN_ASSIGN_OR_RETURN(std::string id, client.Submit(source, spec_file == "-" ? "standard input" : spec_file));
  std::cout << id << std::endl;
  return follow ? RunFollow(coordinator, id) : 0;
}

}  // namespace adjoin
