#include "base/new_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <memory>

#include "absl/strings/str_cat.h"
#include "base/errno_status.h"
#include "base/status_macros.h"

namespace adjoin {
namespace {

constexpr int kMostNames = 100;

absl::string_view KindOf(mode_t mode) {
  if (S_ISDIR(mode)) return "a folder";
  if (S_ISCHR(mode) || S_ISBLK(mode)) return "a device";
  if (S_ISFIFO(mode)) return "a pipe";
  if (S_ISSOCK(mode)) return "a socket";
  if (S_ISLNK(mode)) return "a symbolic link";
  return "something else";
}

absl::Status NotReplaced(const std::string& path, mode_t mode) {
  return absl::FailedPreconditionError(
      absl::StrCat(path, " is ", KindOf(mode), ", and only regular files are replaced; choose another name"));
}

absl::Status CannotWrite(const std::string& path, int error) {
  return ErrnoStatus(error, absl::StrCat(path, " cannot be written"));
}

absl::Status CannotMake(const std::string& path, int error) {
  const std::string folder = std::filesystem::path(path).parent_path().string();
  if (error != ENOENT || folder.empty()) return CannotWrite(path, error);
  return absl::NotFoundError(absl::StrCat(path, " cannot be written: there is no folder ", folder));
}

// OK where nothing or a regular file is at `path`.
absl::Status CheckRegular(const std::string& path) {
  struct stat info = {};
  if (lstat(path.c_str(), &info) != 0) return errno == ENOENT ? absl::OkStatus() : CannotWrite(path, errno);
  return S_ISREG(info.st_mode) ? absl::OkStatus() : NotReplaced(path, info.st_mode);
}

absl::Status AlreadyThere(const std::string& path) { return absl::AlreadyExistsError(absl::StrCat(path, " exists")); }

// Returns where the links at `path` lead; `path` itself where it is none.
absl::StatusOr<std::string> FollowLinks(const std::string& path) {
  struct stat info = {};
  if (lstat(path.c_str(), &info) != 0) return path;  // nothing is there, or opening the new file reports it
  if (!S_ISLNK(info.st_mode)) return path;
  // The kernel's own links, such as /dev/stdout, have no path to a pipe.
  if (stat(path.c_str(), &info) != 0) {
    return absl::FailedPreconditionError(
        absl::StrCat(path, " is a symbolic link that leads to nothing; remove it or choose another name"));
  }
  if (!S_ISREG(info.st_mode)) return NotReplaced(path, info.st_mode);
  std::unique_ptr<char, decltype(&free)> real(realpath(path.c_str(), nullptr), &free);
  if (real == nullptr) return CannotWrite(path, errno);
  return std::string(real.get());
}

}  // namespace

absl::Status ReplaceFile(const std::string& from, const std::string& to) {
  struct stat info = {};
  if (lstat(to.c_str(), &info) != 0 && errno != ENOENT) return CannotWrite(to, errno);
  if (info.st_mode != 0 && !S_ISREG(info.st_mode) && !S_ISLNK(info.st_mode)) return NotReplaced(to, info.st_mode);
  return rename(from.c_str(), to.c_str()) == 0 ? absl::OkStatus() : CannotWrite(to, errno);
}

absl::StatusOr<NewFile> NewFile::Begin(const std::string& path, Over over) {
  struct stat info = {};
  if (over == Over::kNothing && lstat(path.c_str(), &info) == 0) return AlreadyThere(path);
  ADJOIN_ASSIGN_OR_RETURN(std::string real, FollowLinks(path));
  ADJOIN_RETURN_IF_ERROR(CheckRegular(real));
  for (int number = 0;; ++number) {
    std::string partial = absl::StrCat(real, ".", getpid(), number == 0 ? "" : absl::StrCat(".", number), ".part");
    UniqueFd fd(open(partial.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666));
    if (fd.get() >= 0) return NewFile(std::move(real), over, std::move(partial), std::move(fd));
    // A command that died has left it, and another process has its number now.
    if (errno == EEXIST && number < kMostNames) continue;
    return errno == EEXIST ? CannotWrite(partial, errno) : CannotMake(real, errno);
  }
}

NewFile::~NewFile() {
  if (!partial_.empty()) unlink(partial_.c_str());
}

absl::Status NewFile::Write(absl::string_view data) {
  while (!data.empty()) {
    const ssize_t written = write(fd_.get(), data.data(), data.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return CannotWrite(partial_, errno);
    data.remove_prefix(static_cast<size_t>(written));
  }
  return absl::OkStatus();
}

absl::Status NewFile::Finish() {
  if (fsync(fd_.get()) != 0) return CannotWrite(partial_, errno);
  if (over_ == Over::kNothing) {
    if (link(partial_.c_str(), path_.c_str()) != 0) {
      return errno == EEXIST ? AlreadyThere(path_) : CannotWrite(path_, errno);
    }
    unlink(partial_.c_str());
  } else {
    ADJOIN_RETURN_IF_ERROR(CheckRegular(path_));  // a link that came meanwhile would be lost
    ADJOIN_RETURN_IF_ERROR(ReplaceFile(partial_, path_));
  }
  partial_.clear();
  return absl::OkStatus();
}

}  // namespace adjoin
