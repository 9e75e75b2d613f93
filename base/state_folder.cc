#include "base/state_folder.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "base/new_file.h"
#include "base/status_macros.h"

namespace adjoin {

absl::Status MakeFolders(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) return absl::UnavailableError(absl::StrCat("folder ", path, " cannot be made: ", error.message()));
  return absl::OkStatus();
}

absl::StatusOr<StateFolder> StateFolder::Lock(const std::string& path) {
  std::error_code error;
  const bool made = !std::filesystem::exists(path, error);
  ADJOIN_RETURN_IF_ERROR(MakeFolders(path));
  std::string absolute = std::filesystem::canonical(path, error).string();
  if (error) return absl::UnavailableError(absl::StrCat("folder ", path, ": ", error.message()));
  if (made) chmod(absolute.c_str(), 0700);  // a folder that was there before is its owner's business
  std::string file = absolute + "/lock";
  int fd = open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0) return absl::UnavailableError(absl::StrCat(file, " cannot be written: ", strerror(errno)));
  if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
    close(fd);
    return absl::AlreadyExistsError(
        absl::StrCat("another process uses ", absolute, ": stop it, or give another --state-dir"));
  }
  return StateFolder(absolute, fd);
}

StateFolder::~StateFolder() {
  if (lock_ >= 0) close(lock_);
}

absl::Status WriteFileAtomically(const std::string& path, const std::string& content) {
  // A link to a device, such as /dev/stdout, is what others need as well.
  struct stat there = {};
  if (stat(path.c_str(), &there) == 0 && !S_ISREG(there.st_mode)) {
    return absl::FailedPreconditionError(
        absl::StrCat(path, " is no regular file, and only those are replaced; choose another name"));
  }
  std::string temporary = absl::StrCat(path, ".", getpid(), kUnfinishedSuffix);
  {
    std::ofstream file(temporary, std::ios::binary);
    file << content;
    file.flush();
    if (!file) return absl::UnavailableError(absl::StrCat(temporary, " cannot be written: ", strerror(errno)));
  }
  const absl::Status replaced = ReplaceFile(temporary, path);
  if (replaced.ok()) return replaced;
  unlink(temporary.c_str());
  return absl::IsFailedPrecondition(replaced) ? replaced : absl::UnavailableError(replaced.message());
}

}  // namespace adjoin
