#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <iostream>
#include <memory>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "cli/commands.h"
#include "worker/model/safetensors.h"

namespace adjoin {
namespace {

constexpr char kModel[] = "model.safetensors";

absl::Status Failed(const std::string& path, int error) {
  return absl::UnavailableError(absl::StrCat(path, " cannot be written: ", strerror(error)));
}

absl::Status AlreadyThere(const std::string& path) {
  return absl::AlreadyExistsError(absl::StrCat(path, " exists; --force writes over it"));
}

absl::Status WriteAll(int fd, const std::string& path, const std::string& data) {
  for (size_t done = 0; done < data.size();) {
    const ssize_t written = write(fd, data.data() + done, data.size() - done);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return Failed(path, errno);
    done += static_cast<size_t>(written);
  }
  return absl::OkStatus();
}

// Gives the file its name in one step, over another file only with `force`.
absl::Status Name(const std::string& partial, const std::string& path, bool force) {
  if (force) return rename(partial.c_str(), path.c_str()) == 0 ? absl::OkStatus() : Failed(path, errno);
  if (link(partial.c_str(), path.c_str()) == 0) return absl::OkStatus();
  return errno == EEXIST ? AlreadyThere(path) : Failed(path, errno);
}

}  // namespace

absl::StatusOr<int> RunExport(const CommandOptions& options, const std::string& job, const std::string& path,
                              bool force) {
  // Checked before anything is sent; Name checks again, for a file that comes meanwhile.
  if (!force && access(path.c_str(), F_OK) == 0) return AlreadyThere(path);
  const std::string partial = absl::StrCat(path, ".", getpid(), ".part");
  const int fd = open(partial.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0) return Failed(partial, errno);
  absl::Cleanup remove = [&] { unlink(partial.c_str()); };
  {
    absl::Cleanup close_fd = [&] { close(fd); };
    CoordinatorClient client(options.client);
    ADJOIN_RETURN_IF_ERROR(
        client.GetArtifact(job, kModel, [&](const std::string& data) { return WriteAll(fd, partial, data); }));
    if (fsync(fd) != 0) return Failed(partial, errno);
  }
  absl::StatusOr<std::unique_ptr<SafetensorsReader>> model = SafetensorsReader::Open(partial);
  if (!model.ok()) {
    return absl::DataLossError(
        absl::StrCat("what came of ", job, " is no whole model: ", std::string(model.status().message())));
  }
  ADJOIN_RETURN_IF_ERROR(Name(partial, path, force));
  int64_t bytes = 0;
  for (const SafetensorsEntry& entry : (*model)->entries()) bytes += entry.Bytes();
  std::cout << path << ": " << (*model)->entries().size() << " tensors, " << bytes << " bytes" << std::endl;
  return 0;
}

}  // namespace adjoin
