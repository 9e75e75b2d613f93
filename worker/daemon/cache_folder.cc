#include "worker/daemon/cache_folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/state_folder.h"
#include "base/status_macros.h"
#include "base/unique_fd.h"

namespace adjoin {
namespace {

absl::Status Unavailable(const std::string& path, const std::string& what) {
  return absl::UnavailableError(absl::StrCat("folder ", path, " for inflated copies ", what, ": ", strerror(errno)));
}

absl::Status NotTheirs(const std::string& path, const User& user, const std::string& why) {
  return absl::FailedPreconditionError(absl::StrCat("--cache-dir ", path, " ", why, "; ranks run as ", user.name,
                                                    ": name a folder that is theirs, or is not there yet"));
}

// The names that worker/data/inflate_cache.cc gives to its files.
bool IsOfTheCache(const std::string& name) {
  return name == "lock" || absl::EndsWith(name, ".inflated") || absl::EndsWith(name, ".inflated.tmp");
}

absl::StatusOr<std::vector<std::string>> NamesIn(int folder, const std::string& path) {
  const int listed = fcntl(folder, F_DUPFD_CLOEXEC, 0);
  const std::unique_ptr<DIR, int (*)(DIR*)> entries(listed < 0 ? nullptr : fdopendir(listed), closedir);
  if (entries == nullptr) {
    if (listed >= 0) close(listed);
    return Unavailable(path, "cannot be listed");
  }
  rewinddir(entries.get());  // the place is the folder's, which may have been listed before
  std::vector<std::string> names;
  while (const dirent* entry = readdir(entries.get())) {
    const std::string name = entry->d_name;
    if (name != "." && name != "..") names.push_back(name);
  }
  return names;
}

// Files are removed, not given to the user: a former owner of the folder may have put a link to any file there.
absl::Status RemoveOthersFiles(int folder, const std::string& path, const std::vector<std::string>& names,
                               const User& user) {
  for (const std::string& name : names) {
    struct stat info;
    if (!IsOfTheCache(name) || fstatat(folder, name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) continue;
    if (info.st_uid == user.uid || S_ISDIR(info.st_mode)) continue;
    if (unlinkat(folder, name.c_str(), 0) != 0 && errno != ENOENT) {
      return Unavailable(path, absl::StrCat("has ", name, " of another user, which cannot be removed"));
    }
  }
  return absl::OkStatus();
}

absl::Status GiveTo(int folder, const std::string& path, bool named, const User& user) {
  struct stat info;
  if (fstat(folder, &info) != 0) return Unavailable(path, "cannot be looked at");
  ADJOIN_ASSIGN_OR_RETURN(const std::vector<std::string> names, NamesIn(folder, path));
  const bool theirs = info.st_uid == user.uid;
  if (named && !theirs) {
    if (info.st_uid != geteuid())
      return NotTheirs(path, user, absl::StrCat("belongs to the user with id ", info.st_uid));
    for (const std::string& name : names) {
      if (!IsOfTheCache(name)) return NotTheirs(path, user, absl::StrCat("is root's, and has '", name, "' in it"));
    }
  }
  // The folder is closed while it is the caller's: a mode of what the user owns takes CAP_FOWNER, which
  // deploy/adjoin-worker-root.conf leaves out.
  if (!theirs && ((info.st_uid != geteuid() && fchown(folder, geteuid(), getegid()) != 0) || fchmod(folder, 0700) != 0))
    return Unavailable(path, absl::StrCat("cannot be closed to all but ", user.name));
  ADJOIN_ASSIGN_OR_RETURN(const std::vector<std::string> left, NamesIn(folder, path));  // nobody adds any from now on
  ADJOIN_RETURN_IF_ERROR(RemoveOthersFiles(folder, path, left, user));
  if (!theirs && fchown(folder, user.uid, user.gid) != 0)
    return Unavailable(path, absl::StrCat("cannot be given to ", user.name));
  return absl::OkStatus();
}

}  // namespace

absl::Status MakeCacheFolder(const std::string& path, bool named, const std::optional<User>& user) {
  struct stat info;
  if (stat(path.c_str(), &info) != 0) {
    ADJOIN_RETURN_IF_ERROR(MakeFolders(path));
    if (chmod(path.c_str(), 0700) != 0) return Unavailable(path, "cannot be made");
  }
  // The operator may name the folder by a link.
  const UniqueFd folder(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | (named ? 0 : O_NOFOLLOW)));
  if (folder.get() < 0) return Unavailable(path, "cannot be opened");
  if (user.has_value()) return GiveTo(folder.get(), path, named, *user);
  if (faccessat(folder.get(), ".", R_OK | W_OK | X_OK, AT_EACCESS) != 0) return Unavailable(path, "cannot be written");
  return absl::OkStatus();
}

}  // namespace adjoin
