#include "worker/daemon/folder_owner.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <functional>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/errno_status.h"
#include "base/output_dir.h"
#include "base/status_macros.h"
#include "base/sync_folder.h"
#include "base/unique_fd.h"
#include "worker/data/path_rules.h"

namespace adjoin {
namespace {

constexpr char kOwnerKey[] = "owner: ";
constexpr char kJobKey[] = "job: ";
constexpr char kStoreKey[] = "store: ";
constexpr size_t kMostNoteBytes = 4096;
constexpr int kMostLevels = 256;
constexpr int kMostEntries = 20'000;  // looked at below a folder that has no note yet
constexpr int kFolder = O_PATH | O_DIRECTORY | O_CLOEXEC;

std::string Named(const FolderUser& user) {
  return user.owner.empty() ? "a local user" : absl::StrCat("'", absl::Utf8SafeCEscape(user.owner), "'");
}

absl::Status IsOfAnother(const std::string& shown, const FolderUser& owner, absl::string_view what) {
  return absl::FailedPreconditionError(
      absl::StrCat("'", shown.empty() ? "." : shown, "' ", what, " of ", Named(owner), ", as its note ", kOwnerFile,
                   " tells", owner.job_id.empty() ? "" : absl::StrCat(" (it was made for ", owner.job_id, ")"),
                   "; right would be a folder of the job's own owner"));
}

bool SameFile(int a, int b) {
  struct stat first = {}, second = {};
  return fstat(a, &first) == 0 && fstat(b, &second) == 0 && first.st_dev == second.st_dev &&
         first.st_ino == second.st_ino;
}

// Returns the folder, or the nearest one above it that exists.
absl::StatusOr<HeldPath> HoldNearest(const std::string& root, const std::string& relative) {
  std::vector<std::string> parts = absl::StrSplit(relative, '/', absl::SkipEmpty());
  while (!parts.empty()) {
    std::string path;
    for (const std::string& part : parts) absl::StrAppend(&path, path.empty() ? "" : "/", part);
    absl::StatusOr<HeldPath> held = HoldBelow(root, path);
    if (!absl::IsNotFound(held.status())) return held;
    parts.pop_back();
  }
  return HoldFolder(root, "");
}

// Calls `visit` with `folder` and the folders above it, and not with the root unless `folder` is it. `is_whole`: false
// where `folder` is only the place in which another one would be made.
absl::Status VisitUpwards(const std::string& root, int folder, bool is_whole, const std::string& shown,
                          const std::function<absl::Status(int)>& visit) {
  ADJOIN_ASSIGN_OR_RETURN(const HeldPath top, HoldFolder(root, ""));
  if (SameFile(folder, top.fd())) return is_whole ? visit(folder) : absl::OkStatus();
  UniqueFd at(fcntl(folder, F_DUPFD_CLOEXEC, 0));
  for (int level = 0; level < kMostLevels && at.get() >= 0; ++level) {
    if (SameFile(at.get(), top.fd())) return absl::OkStatus();
    ADJOIN_RETURN_IF_ERROR(visit(at.get()));
    at = UniqueFd(openat(at.get(), "..", kFolder));
  }
  if (at.get() < 0) return ErrnoStatus(errno, absl::StrCat("the folders above '", shown, "'"));
  return absl::InvalidArgumentError(absl::StrCat("'", shown, "' is not below its root folder"));
}

// Sets `*owned` where a note was found, which is then the user's or one that the user need not heed.
absl::Status CheckUpwards(const std::string& root, int folder, bool is_whole, const std::string& shown,
                          const FolderUser& user, bool* owned) {
  return VisitUpwards(root, folder, is_whole, shown, [&](int above) -> absl::Status {
    const absl::StatusOr<std::optional<FolderUser>> owner = ReadOwner(above);
    if (!owner.ok()) {
      *owned = true;
      if (user.any_folder) return absl::OkStatus();
      return absl::Status(owner.status().code(),
                          absl::StrCat("'", shown, "': ", std::string(owner.status().message())));
    }
    if (!owner->has_value()) return absl::OkStatus();
    *owned = true;
    if (user.any_folder || (*owner)->owner == user.owner) return absl::OkStatus();
    return IsOfAnother(shown, **owner, "is in a folder");
  });
}

// Calls `visit` with the folders below `folder`, and sets `*left` to how many more names may be looked at.
absl::Status VisitBelow(int folder, int depth, int* left, const std::function<absl::Status(int)>& visit) {
  const int fd = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return absl::OkStatus();  // what the daemon cannot read it has not written
  std::unique_ptr<DIR, int (*)(DIR*)> names(fdopendir(fd), &closedir);
  if (names == nullptr || depth == kMostLevels) return absl::OkStatus();
  while (const dirent* entry = readdir(names.get())) {
    const std::string name = entry->d_name;
    if (IsReservedName(name) || name == ".") continue;
    if (--*left < 0) return absl::OkStatus();
    if (entry->d_type != DT_DIR && entry->d_type != DT_UNKNOWN) continue;
    const UniqueFd below(openat(folder, name.c_str(), kFolder | O_NOFOLLOW));
    if (below.get() < 0) {
      const bool is_no_folder = errno == ENOTDIR || errno == ELOOP || errno == ENOENT;
      if (is_no_folder || errno == EACCES) continue;  // what the daemon cannot enter it has not written
      return ErrnoStatus(errno, absl::StrCat("'", name, "'"));
    }
    ADJOIN_RETURN_IF_ERROR(visit(below.get()));
    ADJOIN_RETURN_IF_ERROR(VisitBelow(below.get(), depth + 1, left, visit));
  }
  return absl::OkStatus();
}

// A job that writes in a folder also writes over what others have below it.
absl::Status CheckBelow(int folder, const std::string& shown, const FolderUser& user) {
  int left = kMostEntries;
  ADJOIN_RETURN_IF_ERROR(VisitBelow(folder, 0, &left, [&](int below) -> absl::Status {
    const absl::StatusOr<std::optional<FolderUser>> owner = ReadOwner(below);
    if (owner.ok() && (!owner->has_value() || (*owner)->owner == user.owner)) return absl::OkStatus();
    return IsOfAnother(shown, owner.ok() ? **owner : FolderUser{"somebody", "", 0, false}, "is above a folder");
  }));
  if (left >= 0) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("'", shown, "' has no owner yet, and more than ", kMostEntries,
                   " files, too many to look for folders of other owners among them; right would be a folder of the"
                   " job's own, or a note ",
                   kOwnerFile, " that an operator writes there, with the line \"", kOwnerKey,
                   absl::Utf8SafeCEscape(user.owner), "\""));
}

std::string NoteText(const FolderUser& user) {
  return absl::StrCat(kOwnerKey, absl::Utf8SafeCEscape(user.owner), "\n", kJobKey, absl::Utf8SafeCEscape(user.job_id),
                      "\n", kStoreKey, absl::Hex(user.store_id, absl::kZeroPad16), "\n");
}

// Writes the note unless another daemon is faster.
absl::Status WriteNote(int folder, const std::string& shown, const FolderUser& user) {
  std::random_device device;
  const std::string temporary = absl::StrCat(kOwnerFile, ".", absl::Hex(device()), absl::Hex(device()));
  const auto failed = [&](int error) { return ErrnoStatus(error, absl::StrCat("'", shown, "/", kOwnerFile, "'")); };
  const UniqueFd fd(openat(folder, temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0644));
  if (fd.get() < 0) return failed(errno);
  absl::Cleanup remove = [&] { unlinkat(folder, temporary.c_str(), 0); };
  const std::string text = NoteText(user);
  errno = ENOSPC;  // for a write that is cut short
  if (write(fd.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size())) return failed(errno);
  if (fsync(fd.get()) != 0) return failed(errno);
  if (linkat(folder, temporary.c_str(), folder, kOwnerFile, 0) != 0 && errno != EEXIST) {
    // A file system without hard links.
    if (renameat2(folder, temporary.c_str(), folder, kOwnerFile, RENAME_NOREPLACE) != 0 && errno != EEXIST) {
      return failed(errno);
    }
  }
  const int error = SyncFolder(absl::StrCat("/proc/self/fd/", folder));
  return error == 0 ? absl::OkStatus() : failed(error);
}

absl::string_view ValueOf(const std::vector<absl::string_view>& lines, absl::string_view key) {
  for (absl::string_view line : lines) {
    if (absl::ConsumePrefix(&line, key)) return line;
  }
  return "";
}

}  // namespace

absl::StatusOr<std::optional<FolderUser>> ReadOwner(int folder) {
  const UniqueFd fd(openat(folder, kOwnerFile, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (fd.get() < 0 && errno == ENOENT) return std::nullopt;
  struct stat info = {};
  if (fd.get() < 0 && errno != ELOOP) return ErrnoStatus(errno, kOwnerFile);
  const auto no_note = [](absl::string_view why) {
    return absl::FailedPreconditionError(
        absl::StrCat("its note ", kOwnerFile, " ", why, "; an operator may put it right, or remove it"));
  };
  if (fd.get() < 0 || fstat(fd.get(), &info) != 0 || !S_ISREG(info.st_mode)) return no_note("is no regular file");
  char text[kMostNoteBytes];
  const ssize_t size = read(fd.get(), text, sizeof(text));
  if (size < 0) return ErrnoStatus(errno, kOwnerFile);
  const std::vector<absl::string_view> lines = absl::StrSplit(absl::string_view(text, size), '\n');
  FolderUser owner;
  if (!absl::StartsWith(lines[0], absl::StripSuffix(kOwnerKey, " ")) ||
      !absl::CUnescape(ValueOf(lines, kOwnerKey), &owner.owner)) {
    return no_note(absl::StrCat("does not begin with \"", kOwnerKey, "NAME\""));
  }
  if (!absl::CUnescape(ValueOf(lines, kJobKey), &owner.job_id)) owner.job_id.clear();
  if (!absl::SimpleHexAtoi(ValueOf(lines, kStoreKey), &owner.store_id)) owner.store_id = 0;
  return owner;
}

absl::Status CheckMayWrite(const std::string& root, const std::string& relative, const FolderUser& user) {
  if (user.any_folder) return absl::OkStatus();
  ADJOIN_ASSIGN_OR_RETURN(const HeldPath nearest, HoldNearest(root, relative));
  const bool is_whole = relative.empty() || HoldBelow(root, relative).ok();
  bool owned = false;
  return CheckUpwards(root, nearest.fd(), is_whole, relative, user, &owned);
}

absl::Status OwnFolder(const std::string& root, const std::string& relative, const FolderUser& user) {
  ADJOIN_ASSIGN_OR_RETURN(const HeldPath folder, HoldFolder(root, relative));
  bool owned = false;
  ADJOIN_RETURN_IF_ERROR(CheckUpwards(root, folder.fd(), true, relative, user, &owned));
  if (owned) return absl::OkStatus();
  ADJOIN_ASSIGN_OR_RETURN(const HeldPath top, HoldFolder(root, ""));
  if (!SameFile(folder.fd(), top.fd())) {
    const absl::Status below = CheckBelow(folder.fd(), relative, user);
    if (!below.ok()) return user.any_folder ? absl::OkStatus() : below;
  }
  ADJOIN_RETURN_IF_ERROR(WriteNote(folder.fd(), relative, user));
  return CheckUpwards(root, folder.fd(), true, relative, user, &owned);  // another owner may have been faster
}

absl::Status CheckMayRead(const std::string& root, const std::string& relative, const FolderUser& user) {
  if (user.any_folder) return absl::OkStatus();
  ADJOIN_ASSIGN_OR_RETURN(const HeldPath top, HoldFolder(root, ""));
  absl::StatusOr<HeldPath> held = HoldBelow(root, relative);
  if (absl::IsNotFound(held.status())) return absl::OkStatus();
  ADJOIN_RETURN_IF_ERROR(held.status());
  bool owned = false;
  struct stat info = {};
  if (fstat(held->fd(), &info) == 0 && S_ISDIR(info.st_mode)) {
    return CheckUpwards(root, held->fd(), true, relative, user, &owned);
  }
  // The folder that the file is in, also where the path is a link to it.
  std::error_code error;
  const std::filesystem::path at = std::filesystem::read_symlink(held->path(), error);
  const UniqueFd folder(error ? -1 : open(at.parent_path().c_str(), kFolder));
  if (folder.get() < 0) return ErrnoStatus(error ? error.value() : errno, absl::StrCat("'", relative, "'"));
  return CheckUpwards(root, folder.get(), true, relative, user, &owned);
}

}  // namespace adjoin
