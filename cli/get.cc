#include <iostream>
#include <utility>

#include "base/new_file.h"
#include "base/status_macros.h"
#include "cli/commands.h"

namespace adjoin {

absl::StatusOr<int> RunGet(const CommandOptions& options, const std::string& job, const std::string& name,
                           const std::string& output) {
  CoordinatorClient client(options.client);
  GetArtifactRequest request;
  request.set_job_id(job);
  request.set_name(name);
  request.set_unfinished(true);  // of the metrics of a job that still runs
  if (output == "-") {
    ADJOIN_RETURN_IF_ERROR(client.GetArtifact(std::move(request), [](const ArtifactChunk& chunk) {
      std::cout.write(chunk.data().data(), static_cast<std::streamsize>(chunk.data().size()));
      return std::cout ? absl::OkStatus() : absl::UnavailableError("standard output cannot be written");
    }));
    std::cout << std::flush;
    return 0;
  }
  ADJOIN_ASSIGN_OR_RETURN(NewFile file, NewFile::Begin(output.empty() ? name : output, NewFile::Over::kRegularFile));
  ADJOIN_RETURN_IF_ERROR(
      client.GetArtifact(std::move(request), [&](const ArtifactChunk& chunk) { return file.Write(chunk.data()); }));
  ADJOIN_RETURN_IF_ERROR(file.Finish());
  return 0;
}

}  // namespace adjoin
