#include "worker/daemon/result_folder.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/errno_status.h"
#include "base/unique_fd.h"

namespace adjoin {
namespace {

constexpr int kFolder = O_RDONLY | O_DIRECTORY | O_CLOEXEC;

// A path that leads out of `root` is EXDEV.
UniqueFd OpenIn(int root, const std::string& path, int flags) {
  open_how how = {};
  how.flags = static_cast<uint64_t>(flags);
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS;
  return UniqueFd(static_cast<int>(syscall(SYS_openat2, root, path.c_str(), &how, sizeof(how))));
}

absl::Status ErrorOf(const std::string& what, int cause) {
  if (cause == EXDEV || cause == ELOOP) {
    return absl::PermissionDeniedError(absl::StrCat("'", what, "': a symbolic link is in the way"));
  }
  return ErrnoStatus(cause, absl::StrCat("'", what, "'"));
}

}  // namespace

absl::Status MakeResultFolder(const std::string& root, const std::string& relative, uid_t uid, gid_t gid) {
  UniqueFd top(open(root.c_str(), kFolder));
  if (top.get() < 0) return ErrorOf(root, errno);
  UniqueFd parent(dup(top.get()));
  std::string path;
  const std::vector<std::string> names = absl::StrSplit(relative, '/', absl::SkipEmpty());
  for (const std::string& name : names) {
    absl::StrAppend(&path, path.empty() ? "" : "/", name);
    UniqueFd folder = OpenIn(top.get(), path, kFolder);
    if (folder.get() < 0) {
      if (errno != ENOENT) return ErrorOf(path, errno);
      // Another daemon of this node may make it at the same time.
      if (mkdirat(parent.get(), name.c_str(), 0755) != 0 && errno != EEXIST) return ErrorOf(path, errno);
      folder = UniqueFd(openat(parent.get(), name.c_str(), kFolder | O_NOFOLLOW));
      if (folder.get() < 0) return ErrorOf(path, errno);
      if (fchown(folder.get(), uid, gid) != 0) return ErrorOf(path, errno);
    }
    parent = std::move(folder);
  }
  return absl::OkStatus();
}

}  // namespace adjoin
