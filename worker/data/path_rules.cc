#include "worker/data/path_rules.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <memory>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/errno_status.h"
#include "base/output_dir.h"
#include "base/status_macros.h"

namespace adjoin {
namespace {

absl::Status CheckText(const std::string& relative) {
  if (relative.empty()) return absl::InvalidArgumentError("an empty path: name a file below the root");
  if (relative[0] == '/') {
    return absl::InvalidArgumentError(absl::StrCat("'", relative, "' is absolute; paths are relative to the root"));
  }
  if (relative.find('\0') != std::string::npos) return absl::InvalidArgumentError("a path with a zero byte");
  for (absl::string_view part : absl::StrSplit(relative, '/')) {
    if (part == "..")
      return absl::InvalidArgumentError(absl::StrCat("'", relative, "' holds '..'; paths stay below the root"));
  }
  return absl::OkStatus();
}

bool IsBelow(const std::string& root, const std::string& path) {
  return path == root || root == "/" || absl::StartsWith(path, root + "/");
}

absl::Status SystemError(const std::string& shown, int error) {
  if (error == ENOENT || error == ENOTDIR) return absl::NotFoundError(absl::StrCat("'", shown, "': no such file"));
  const std::string quoted = absl::StrCat("'", shown, "'");
  if (error == ELOOP) return absl::InvalidArgumentError(absl::StrCat(quoted, ": ", strerror(error)));
  return ErrnoStatus(error, quoted);
}

absl::StatusOr<std::string> RealPath(const std::string& path, const std::string& shown) {
  std::unique_ptr<char, decltype(&free)> real(realpath(path.c_str(), nullptr), &free);
  if (real == nullptr) return SystemError(shown, errno);
  return std::string(real.get());
}

absl::StatusOr<std::string> RealRoot(const std::string& root, const std::string& relative) {
  absl::StatusOr<std::string> real = RealPath(root, relative);
  if (real.ok()) return real;
  return absl::Status(real.status().code(), absl::StrCat(std::string(real.status().message()), " (its root folder)"));
}

absl::Status LeadsOut(const std::string& relative) {
  return absl::InvalidArgumentError(absl::StrCat("'", relative, "' leads out of the root by a symbolic link"));
}

constexpr int kHold = O_PATH | O_CLOEXEC;

int OpenAt2(int folder, const std::string& path, int flags, uint64_t resolve) {
  open_how how = {};
  how.flags = static_cast<uint64_t>(flags);
  how.resolve = resolve;
  // EAGAIN: something on the way was renamed meanwhile, and the kernel cannot tell whether that led out.
  constexpr int kTries = 1000;
  for (int tries = 0;; ++tries) {
    const int fd = static_cast<int>(syscall(SYS_openat2, folder, path.c_str(), &how, sizeof(how)));
    if (fd >= 0 || (errno != EAGAIN && errno != EINTR) || tries == kTries) return fd;
  }
}

// Linux 5.6 has openat2; some containers forbid it.
bool HasOpenAt2() {
  static const bool has = [] {
    const int fd = OpenAt2(AT_FDCWD, "/", kHold | O_DIRECTORY, RESOLVE_NO_MAGICLINKS);
    if (fd >= 0) close(fd);
    return fd >= 0 || (errno != ENOSYS && errno != EPERM);
  }();
  return has;
}

// Compares with the path that realpath gave: the open file tells where it is.
absl::StatusOr<HeldPath> OpenAndLook(const std::string& real_root, const std::string& real, const std::string& shown) {
  const int fd = open(real.c_str(), kHold | O_NOFOLLOW);
  if (fd < 0) return SystemError(shown, errno);
  HeldPath held(fd, shown);
  char at[PATH_MAX];
  const ssize_t size = readlink(held.path().c_str(), at, sizeof(at));
  struct stat info;
  const bool link = fstat(fd, &info) != 0 || S_ISLNK(info.st_mode);
  const bool known = size > 0 && size < static_cast<ssize_t>(sizeof(at));
  if (link || !known || !IsBelow(real_root, std::string(at, size))) return LeadsOut(shown);
  return held;
}

// `root` is open as `top`; messages name `shown`.
absl::StatusOr<HeldPath> OpenBelow(int top, const std::string& root, const std::string& relative,
                                   const std::string& shown) {
  if (HasOpenAt2()) {
    const int fd = OpenAt2(top, relative, kHold, RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS);
    if (fd >= 0) return HeldPath(fd, shown);
    if (errno != EXDEV) return SystemError(shown, errno);
    // It leads out, or goes by a link that is absolute and yet ends below the root.
  }
  ADJOIN_ASSIGN_OR_RETURN(const std::string real_root, RealRoot(root, shown));
  ADJOIN_ASSIGN_OR_RETURN(const std::string real, RealPath(real_root + "/" + relative, shown));
  if (!IsBelow(real_root, real)) return LeadsOut(shown);
  return OpenAndLook(real_root, real, shown);
}

absl::StatusOr<HeldPath> HoldRoot(const std::string& root, const std::string& shown) {
  const int fd = open(root.c_str(), kHold | O_DIRECTORY);
  if (fd >= 0) return HeldPath(fd, shown);
  const absl::Status status = SystemError(shown, errno);
  return absl::Status(status.code(), absl::StrCat(std::string(status.message()), " (its root folder)"));
}

}  // namespace

HeldPath::~HeldPath() {
  if (fd_ >= 0) close(fd_);
}

std::string HeldPath::path() const { return absl::StrCat("/proc/self/fd/", fd_); }

absl::Status HeldPath::AsShown(const absl::Status& status) const {
  const std::string held = path();
  std::string message(status.message());
  for (size_t at = message.find(held); at != std::string::npos; at = message.find(held, at)) {
    const size_t end = at + held.size();
    const bool whole = end == message.size() || !absl::ascii_isdigit(message[end]);
    if (whole) message.replace(at, held.size(), shown_);
    at += whole ? shown_.size() : held.size();
  }
  absl::Status shown(status.code(), message);
  status.ForEachPayload([&](absl::string_view type, const absl::Cord& payload) { shown.SetPayload(type, payload); });
  return shown;
}

absl::StatusOr<HeldPath> HoldBelow(const std::string& root, const std::string& relative) {
  ADJOIN_RETURN_IF_ERROR(CheckText(relative));
  ADJOIN_ASSIGN_OR_RETURN(const HeldPath top, HoldRoot(root, relative));
  return OpenBelow(top.fd(), root, relative, relative);
}

absl::StatusOr<HeldPath> HoldFolder(const std::string& root, const std::string& relative) {
  if (relative.empty()) return HoldRoot(root, root);
  ADJOIN_RETURN_IF_ERROR(CheckText(relative));
  ADJOIN_ASSIGN_OR_RETURN(const HeldPath top, HoldRoot(root, relative));
  ADJOIN_ASSIGN_OR_RETURN(HeldPath folder, HoldRoot(root, relative));
  std::string path;
  for (absl::string_view part : absl::StrSplit(relative, '/', absl::SkipEmpty())) {
    absl::StrAppend(&path, path.empty() ? "" : "/", part);
    absl::StatusOr<HeldPath> next = OpenBelow(top.fd(), root, path, relative);
    if (absl::IsNotFound(next.status())) {
      // Another process may make the folder at the same time, or a link in its place: open it like any other.
      if (mkdirat(folder.fd(), std::string(part).c_str(), 0755) != 0 && errno != EEXIST)
        return SystemError(relative, errno);
      next = OpenBelow(top.fd(), root, path, relative);
      // The link leads to nothing: a process that made its target could decide where the job writes.
      if (absl::IsNotFound(next.status())) return LeadsOut(relative);
    }
    ADJOIN_RETURN_IF_ERROR(next.status());
    folder = *std::move(next);
    struct stat info;
    if (fstat(folder.fd(), &info) != 0 || !S_ISDIR(info.st_mode)) {
      return absl::InvalidArgumentError(absl::StrCat("'", path, "' is there and is not a folder"));
    }
  }
  return folder;
}

absl::StatusOr<std::string> ResolveBelow(const std::string& root, const std::string& relative) {
  ADJOIN_RETURN_IF_ERROR(CheckText(relative));
  ADJOIN_ASSIGN_OR_RETURN(std::string real_root, RealRoot(root, relative));
  ADJOIN_ASSIGN_OR_RETURN(std::string real, RealPath(real_root + "/" + relative, relative));
  if (!IsBelow(real_root, real)) return LeadsOut(relative);
  return real;
}

absl::Status CheckOutputPath(const std::string& root, const std::string& relative) {
  if (relative.empty()) return absl::OkStatus();
  ADJOIN_RETURN_IF_ERROR(CheckText(relative));
  if (const absl::string_view reserved = ReservedName(relative); !reserved.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("'", relative, "' holds '", reserved, "'; ", kReservedNames));
  }
  ADJOIN_ASSIGN_OR_RETURN(std::string real_root, RealRoot(root, relative));
  std::string path = real_root;
  for (absl::string_view part : absl::StrSplit(relative, '/', absl::SkipEmpty())) {
    absl::StrAppend(&path, "/", part);
    absl::StatusOr<std::string> real = RealPath(path, relative);
    // Nothing below exists. A link that points to nothing is refused too: its target might be made later.
    if (absl::IsNotFound(real.status())) {
      char target[PATH_MAX];
      return readlink(path.c_str(), target, sizeof(target)) >= 0 ? LeadsOut(relative) : absl::OkStatus();
    }
    ADJOIN_RETURN_IF_ERROR(real.status());
    if (!IsBelow(real_root, *real)) return LeadsOut(relative);
  }
  return absl::OkStatus();
}

}  // namespace adjoin
