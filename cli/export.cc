#include <iostream>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/new_file.h"
#include "base/output_dir.h"
#include "base/status_macros.h"
#include "cli/commands.h"
#include "worker/model/safetensors.h"

namespace adjoin {
namespace {

// Tells of --force, which writes over a regular file.
absl::Status WithForce(const absl::Status& status) {
  if (!absl::IsAlreadyExists(status)) return status;
  return absl::AlreadyExistsError(absl::StrCat(std::string(status.message()), "; --force writes over it"));
}

}  // namespace

absl::StatusOr<int> RunExport(const CommandOptions& options, const ExportOptions& wanted) {
  const std::string& path = wanted.path;
  absl::StatusOr<NewFile> file =
      NewFile::Begin(path, wanted.force ? NewFile::Over::kRegularFile : NewFile::Over::kNothing);
  if (!file.ok()) return WithForce(file.status());
  CoordinatorClient client(options.client);
  GetArtifactRequest request;
  request.set_job_id(wanted.job);
  request.set_name(kModelFile);
  request.mutable_checkpoint()->set_best(wanted.best);
  request.mutable_checkpoint()->set_step(wanted.step);
  ADJOIN_RETURN_IF_ERROR(
      client.GetArtifact(std::move(request), [&](const ArtifactChunk& chunk) { return file->Write(chunk.data()); }));
  absl::StatusOr<std::unique_ptr<SafetensorsReader>> model = SafetensorsReader::Open(file->partial());
  if (!model.ok()) {
    return absl::DataLossError(
        absl::StrCat("what came of ", wanted.job, " is no whole model: ", std::string(model.status().message())));
  }
  ADJOIN_RETURN_IF_ERROR(WithForce(file->Finish()));
  int64_t bytes = 0;
  for (const SafetensorsEntry& entry : (*model)->entries()) bytes += entry.Bytes();
  std::cout << path << ": " << (*model)->entries().size() << " tensors, " << bytes << " bytes" << std::endl;
  return 0;
}

}  // namespace adjoin
