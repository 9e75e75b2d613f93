#include "worker/data/open_file.h"

#include <cerrno>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/errno_status.h"

namespace adjoin {

absl::Status WriteAt(const std::string& name, int fd, int64_t offset, const void* data, int64_t bytes) {
  const char* from = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t done = pwrite(fd, from, static_cast<size_t>(std::min<int64_t>(bytes, 1 << 30)), offset);
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) return ErrnoStatus(errno, name);
    from += done;
    offset += done;
    bytes -= done;
  }
  return absl::OkStatus();
}

absl::StatusOr<OpenFile> OpenFile::Open(const std::string& path, const std::string& given_name) {
  const std::string& name = given_name.empty() ? path : given_name;
  // Without waiting for the writer of a pipe.
  OpenFile file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK), name);
  if (file.fd_ < 0) return ErrnoStatus(errno, name);
  struct stat info;
  if (fstat(file.fd_, &info) != 0) return ErrnoStatus(errno, name);
  if (!S_ISREG(info.st_mode)) return absl::InvalidArgumentError(absl::StrCat(name, ": not a regular file"));
  return file;
}

OpenFile::~OpenFile() {
  if (fd_ >= 0) close(fd_);
}

absl::StatusOr<int64_t> OpenFile::Size() const {
  struct stat info;
  if (fstat(fd_, &info) != 0) return ErrnoStatus(errno, name_);
  return int64_t{info.st_size};
}

absl::Status OpenFile::ReadAt(int64_t offset, void* out, int64_t bytes) const {
  char* to = static_cast<char*>(out);
  while (bytes > 0) {
    const ssize_t got = pread(fd_, to, static_cast<size_t>(std::min<int64_t>(bytes, 1 << 30)), offset);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return ErrnoStatus(errno, name_);
    if (got == 0) return absl::DataLossError(absl::StrCat(name_, ": became shorter while it was read"));
    to += got;
    offset += got;
    bytes -= got;
  }
  return absl::OkStatus();
}

}  // namespace adjoin
