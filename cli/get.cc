#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <fstream>
#include <iostream>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
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
  // The file has another name until it is whole.
  const std::string path = output.empty() ? name : output;
  const std::string partial = absl::StrCat(path, ".", getpid(), ".part");
  absl::Cleanup remove = [&] { unlink(partial.c_str()); };
  std::ofstream file;
  auto write_error = [&] {
    return absl::UnavailableError(absl::StrCat(partial, " cannot be written: ", strerror(errno)));
  };
  ADJOIN_RETURN_IF_ERROR(client.GetArtifact(job, name, [&](const std::string& data) {
    if (!file.is_open()) file.open(partial, std::ios::binary);
    file.write(data.data(), static_cast<std::streamsize>(data.size()));
    return file ? absl::OkStatus() : write_error();
  }));
  if (!file.is_open()) file.open(partial, std::ios::binary);  // it is empty
  file.close();
  if (!file) return write_error();
  if (rename(partial.c_str(), path.c_str()) != 0) {
    return absl::UnavailableError(absl::StrCat(path, " cannot be written: ", strerror(errno)));
  }
  std::move(remove).Cancel();
  return 0;
}

}  // namespace adjoin
