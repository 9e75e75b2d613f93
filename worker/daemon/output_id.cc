#include "worker/daemon/output_id.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <random>

#include "absl/cleanup/cleanup.h"
#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/errno_status.h"
#include "base/status_macros.h"

namespace adjoin {
namespace {

constexpr char kFile[] = ".adjoin-output-id";
constexpr size_t kOutputIdDigits = 32;

std::string RandomId() {
  std::random_device device;
  return absl::StrFormat("%08x%08x%08x%08x", device(), device(), device(), device());
}

// Returns "" where there is no file.
absl::StatusOr<std::string> ReadId(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (fd < 0 && errno == ENOENT) return std::string();
  if (fd < 0) return ErrnoStatus(errno, path);
  char text[kOutputIdDigits];
  const ssize_t size = read(fd, text, sizeof(text));
  const int error = errno;
  close(fd);
  if (size < 0) return ErrnoStatus(error, path);
  const std::string id(text, static_cast<size_t>(size));
  if (id.size() == kOutputIdDigits && std::all_of(id.begin(), id.end(), absl::ascii_isxdigit)) return id;
  return absl::DataLossError(absl::StrCat(path, ": holds no id of an output root; right would be to remove it"));
}

// Writes the file under a name of its own, and returns once it is on the disk.
absl::Status WriteId(const std::string& path, const std::string& id) {
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  if (fd < 0) return ErrnoStatus(errno, path);
  absl::Cleanup close_fd = [fd] { close(fd); };
  const std::string line = id + "\n";
  errno = ENOSPC;  // a write that is cut short sets none
  if (write(fd, line.data(), line.size()) != static_cast<ssize_t>(line.size()) || fsync(fd) != 0)
    return ErrnoStatus(errno, path);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::string> ReadOutputId(const std::string& root) { return ReadId(absl::StrCat(root, "/", kFile)); }

absl::StatusOr<std::string> OutputId(const std::string& root) {
  const std::string path = absl::StrCat(root, "/", kFile);
  ADJOIN_ASSIGN_OR_RETURN(const std::string known, ReadId(path));
  if (!known.empty()) return known;
  const std::string id = RandomId();
  const std::string mine = absl::StrCat(path, ".", id);
  ADJOIN_RETURN_IF_ERROR(WriteId(mine, id));
  // Only one daemon can make the link; the others find it there.
  const int error = link(mine.c_str(), path.c_str()) == 0 ? 0 : errno;
  unlink(mine.c_str());
  if (error != 0 && error != EEXIST) return ErrnoStatus(error, path);
  ADJOIN_ASSIGN_OR_RETURN(const std::string agreed, ReadId(path));
  if (agreed.empty()) return absl::UnavailableError(absl::StrCat(path, ": was removed"));
  return agreed;
}

}  // namespace adjoin
