#include "worker/runtime/path_rules.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <memory>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
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
    if (part == "..") return absl::InvalidArgumentError(absl::StrCat("'", relative, "' holds '..'; paths stay below the root"));
  }
  return absl::OkStatus();
}

bool IsBelow(const std::string& root, const std::string& path) {
  return path == root || root == "/" || absl::StartsWith(path, root + "/");
}

absl::StatusOr<std::string> RealPath(const std::string& path, const std::string& shown) {
  std::unique_ptr<char, decltype(&free)> real(realpath(path.c_str(), nullptr), &free);
  if (real != nullptr) return std::string(real.get());
  std::string message = absl::StrCat("'", shown, "': ", strerror(errno));
  if (errno == ENOENT || errno == ENOTDIR) return absl::NotFoundError(absl::StrCat("'", shown, "': no such file"));
  if (errno == EACCES) return absl::PermissionDeniedError(message);
  return absl::UnavailableError(message);
}

absl::StatusOr<std::string> RealRoot(const std::string& root, const std::string& relative) {
  absl::StatusOr<std::string> real = RealPath(root, relative);
  if (real.ok()) return real;
  return absl::Status(real.status().code(), absl::StrCat(std::string(real.status().message()), " (its root folder)"));
}

absl::Status LeadsOut(const std::string& relative) {
  return absl::InvalidArgumentError(absl::StrCat("'", relative, "' leads out of the root by a symbolic link"));
}

}  // namespace

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
  ADJOIN_ASSIGN_OR_RETURN(std::string real_root, RealRoot(root, relative));
  std::string path = real_root;
  for (absl::string_view part : absl::StrSplit(relative, '/', absl::SkipEmpty())) {
    absl::StrAppend(&path, "/", part);
    absl::StatusOr<std::string> real = RealPath(path, relative);
    // Nothing below exists. A link that points nowhere is refused too: somebody might make its target later.
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
