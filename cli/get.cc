#include <iostream>

#include "base/new_file.h"
#include "base/status_macros.h"
#include "cli/commands.h"

namespace adjoin {

absl::StatusOr<int> RunGet(const CommandOptions& options, const std::string& job, const std::string& name,
                           const std::string& output) {
  CoordinatorClient client(options.client);
  if (output == "-") {
    ADJOIN_RETURN_IF_ERROR(client.GetArtifact(job, name, [](const std::string& data) {
      std::cout.write(data.data(), static_cast<std::streamsize>(data.size()));
      return std::cout ? absl::OkStatus() : absl::UnavailableError("standard output cannot be written");
    }));
    std::cout << std::flush;
    return 0;
  }
  ADJOIN_ASSIGN_OR_RETURN(NewFile file, NewFile::Begin(output.empty() ? name : output, NewFile::Over::kRegularFile));
  ADJOIN_RETURN_IF_ERROR(client.GetArtifact(job, name, [&](const std::string& data) { return file.Write(data); }));
  ADJOIN_RETURN_IF_ERROR(file.Finish());
  return 0;
}

}  // namespace adjoin
