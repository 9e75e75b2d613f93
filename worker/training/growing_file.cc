#include "worker/training/growing_file.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"

namespace adjoin {
namespace {

constexpr size_t kMostWaiting = size_t{64} << 20;

}  // namespace

absl::StatusOr<std::unique_ptr<GrowingFile>> GrowingFile::Create(const std::string& path) {
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0644);
  if (fd < 0) return absl::UnavailableError(absl::StrCat(path, ": ", std::strerror(errno)));
  std::unique_ptr<GrowingFile> file(new GrowingFile(path, fd));
  // The lock goes with the process, however it ends. Where the file system has no locks, there is none to respect.
  if (flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    return absl::FailedPreconditionError(
        absl::StrCat(path, ": another job is writing it; right would be an output_dir of its own for each job"));
  }
  if (ftruncate(fd, 0) != 0) return absl::UnavailableError(absl::StrCat(path, ": ", std::strerror(errno)));
  return file;
}

bool GrowingFile::InUse(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (fd < 0) return false;
  const bool in_use = flock(fd, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  close(fd);
  return in_use;
}

GrowingFile::~GrowingFile() { close(fd_); }

absl::Status GrowingFile::Append(const std::string& piece) {
  size_ += static_cast<int64_t>(piece.size());
  waiting_ += piece;
  return Flush(/*all=*/waiting_.size() > kMostWaiting);
}

absl::Status GrowingFile::Flush(bool all) {
  // One call a piece: a kill between calls leaves no half one.
  size_t done = 0;
  int error = 0;
  while (done < waiting_.size() && error == 0) {
    const ssize_t written = write(fd_, waiting_.data() + done, waiting_.size() - done);
    if (written >= 0) done += static_cast<size_t>(written);
    if (written < 0 && errno != EINTR) error = errno;
  }
  waiting_.erase(0, done);
  const bool full = error == ENOSPC || error == EDQUOT;
  if (error == 0 || (full && !all)) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat(path_, ": ", std::strerror(error)));
}

absl::Status GrowingFile::RestoreAt(const std::string& path) {
  struct stat mine = {}, there = {};
  if (fstat(fd_, &mine) == 0 && stat(path.c_str(), &there) == 0 && mine.st_dev == there.st_dev &&
      mine.st_ino == there.st_ino) {
    return absl::OkStatus();
  }
  absl::StatusOr<std::unique_ptr<GrowingFile>> again = Create(path);
  if (!again.ok()) return again.status();
  std::ifstream pieces(absl::StrCat("/proc/self/fd/", fd_), std::ios::binary);
  const absl::Status copied = (*again)->Append({std::istreambuf_iterator<char>(pieces), {}});
  if (!copied.ok()) return copied;
  std::swap(fd_, (*again)->fd_);
  path_ = path;
  waiting_.insert(0, (*again)->waiting_);
  return absl::OkStatus();
}

absl::Status GrowingFile::Sync() {
  const absl::Status flushed = Flush(/*all=*/true);
  if (!flushed.ok()) return flushed;
  if (fsync(fd_) != 0) return absl::UnavailableError(absl::StrCat(path_, ": ", std::strerror(errno)));
  return absl::OkStatus();
}

}  // namespace adjoin
