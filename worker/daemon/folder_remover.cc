#include "worker/daemon/folder_remover.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/deadline.h"
#include "base/errno_status.h"
#include "base/output_dir.h"
#include "base/printable_text.h"
#include "base/status_macros.h"
#include "base/unique_fd.h"
#include "proto/message_limits.h"
#include "proto/protocol.h"
#include "worker/checkpoint/manifest.h"
#include "worker/daemon/folder_owner.h"
#include "worker/data/path_rules.h"
#include "worker/session/attempt_notes.h"
#include "worker/training/metrics_writer.h"

namespace adjoin {
namespace {

constexpr absl::Duration kLockTimeout = absl::Seconds(10);
constexpr int kMostLevels = 64;

absl::Status CheckTime(const RemovedFiles& removed) {
  return removed.until.Expired() ? absl::DeadlineExceededError("it took too long, and was ended") : absl::OkStatus();
}

// Names in an open folder, without "." and "..".
absl::StatusOr<std::vector<std::string>> NamesIn(int folder, const std::string& shown) {
  const int fd = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return ErrnoStatus(errno, absl::StrCat("'", shown, "'"));
  std::unique_ptr<DIR, int (*)(DIR*)> open_folder(fdopendir(fd), &closedir);
  std::vector<std::string> names;
  while (const dirent* entry = readdir(open_folder.get())) {
    const std::string name = entry->d_name;
    if (name != "." && name != "..") names.push_back(name);
  }
  return names;
}

// Removes one name that is no folder, and counts it.
absl::Status RemoveFile(int folder, const std::string& name, const std::string& shown, RemovedFiles* removed) {
  ADJOIN_RETURN_IF_ERROR(CheckTime(*removed));
  struct stat info = {};
  if (fstatat(folder, name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) {
    return errno == ENOENT ? absl::OkStatus() : ErrnoStatus(errno, absl::StrCat("'", shown, "/", name, "'"));
  }
  if (unlinkat(folder, name.c_str(), 0) != 0) {
    return errno == ENOENT ? absl::OkStatus() : ErrnoStatus(errno, absl::StrCat("'", shown, "/", name, "'"));
  }
  ++removed->files;
  removed->bytes += static_cast<uint64_t>(info.st_size);
  return absl::OkStatus();
}

// Removes a folder with all that is in it. Links in it are removed, not followed.
absl::Status RemoveTree(int parent, const std::string& name, const std::string& shown, int level,
                        RemovedFiles* removed) {
  const std::string path = absl::StrCat(shown, "/", name);
  if (level == kMostLevels) return absl::FailedPreconditionError(absl::StrCat("'", path, "' is too deep"));
  const UniqueFd folder(openat(parent, name.c_str(), O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (folder.get() < 0) return errno == ENOENT ? absl::OkStatus() : ErrnoStatus(errno, absl::StrCat("'", path, "'"));
  ADJOIN_ASSIGN_OR_RETURN(const std::vector<std::string> names, NamesIn(folder.get(), path));
  for (const std::string& below : names) {
    struct stat info = {};
    if (fstatat(folder.get(), below.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) continue;
    ADJOIN_RETURN_IF_ERROR(S_ISDIR(info.st_mode) ? RemoveTree(folder.get(), below, path, level + 1, removed)
                                                 : RemoveFile(folder.get(), below, path, removed));
  }
  ADJOIN_RETURN_IF_ERROR(CheckTime(*removed));
  if (unlinkat(parent, name.c_str(), AT_REMOVEDIR) == 0 || errno == ENOENT) return absl::OkStatus();
  return ErrnoStatus(errno, absl::StrCat("'", path, "'"));
}

std::string PathIn(int folder, const std::string& name) { return absl::StrCat("/proc/self/fd/", folder, "/", name); }

// The folder attempt-N of an attempt of the job; no link.
bool IsAttemptOf(int home, const std::string& name, const std::string& job_id, uint64_t store_id) {
  absl::string_view number = name;
  uint64_t epoch = 0;
  if (!absl::ConsumePrefix(&number, kAttemptPrefix) || !absl::SimpleAtoi(number, &epoch)) return false;
  struct stat info = {};
  if (fstatat(home, name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISDIR(info.st_mode)) return false;
  const absl::StatusOr<AttemptNote> note = ReadAttemptNote(PathIn(home, absl::StrCat(name, "/", kAttemptFile)));
  return note.ok() && note->epoch == epoch && note->IsOf(job_id, store_id);
}

bool IsWrittenTo(int home, const std::string& attempt) {
  return MetricsWriter::InUse(PathIn(home, absl::StrCat(attempt, "/", kMetricsFile)));
}

// Removes the notes and the folder where nothing else is in it, and where it is not the root.
absl::Status RemoveIfEmpty(const std::string& root, const std::string& relative, int folder,
                           const std::vector<std::string>& notes, RemovedFiles* removed) {
  const std::vector<std::string> parts = absl::StrSplit(relative, '/', absl::SkipEmpty());
  if (parts.empty()) return absl::OkStatus();
  ADJOIN_ASSIGN_OR_RETURN(const std::vector<std::string> names, NamesIn(folder, relative));
  const auto is_note = [&](const std::string& name) {
    return absl::StartsWith(name, absl::StrCat(kOwnerFile, ".")) ||
           std::find(notes.begin(), notes.end(), name) != notes.end();
  };
  if (!std::all_of(names.begin(), names.end(), is_note)) return absl::OkStatus();
  // The owner's note goes last.
  for (const bool owner : {false, true}) {
    for (const std::string& name : names) {
      if ((name == kOwnerFile) == owner) ADJOIN_RETURN_IF_ERROR(RemoveFile(folder, name, relative, removed));
    }
  }
  std::string above;
  for (size_t i = 0; i + 1 < parts.size(); ++i) absl::StrAppend(&above, i == 0 ? "" : "/", parts[i]);
  ADJOIN_ASSIGN_OR_RETURN(const HeldPath parent, HoldBelow(root, above.empty() ? "." : above));
  ADJOIN_RETURN_IF_ERROR(CheckTime(*removed));
  unlinkat(parent.fd(), parts.back().c_str(), AT_REMOVEDIR);  // another job may have put something there meanwhile
  return absl::OkStatus();
}

absl::Status Enter(const std::string& root, const std::string& relative, const MountCalls::Enter& enter) {
  return enter ? enter(absl::StrCat(root, "/", relative)) : absl::OkStatus();
}

absl::Status CheckFolder(const std::string& root, const std::string& relative, const RemoveFolders& request,
                         const MountCalls::Enter& enter) {
  ADJOIN_RETURN_IF_ERROR(Enter(root, relative, enter));
  ADJOIN_RETURN_IF_ERROR(CheckOutputPath(root, relative));
  return CheckMayWrite(root, relative,
                       {.owner = request.owner(),
                        .job_id = request.job_id(),
                        .store_id = request.store_id(),
                        .any_folder = request.any_folder()});
}

absl::Status RemoveCheckpoints(const std::string& root, const RemoveFolders& request, RemovedFiles* removed) {
  const std::string& dir = request.checkpoint_dir();
  if (dir.empty() || request.job_tag() == 0) return absl::OkStatus();
  const absl::StatusOr<HeldPath> folder = HoldBelow(root, dir);
  if (absl::IsNotFound(folder.status())) return absl::OkStatus();
  ADJOIN_RETURN_IF_ERROR(folder.status());
  ADJOIN_ASSIGN_OR_RETURN(const std::vector<std::string> names, NamesIn(folder->fd(), dir));
  for (const std::string& name : names) {
    const std::optional<CheckpointName> checkpoint = CheckpointName::Parse(name);
    if (!checkpoint.has_value() || checkpoint->tag != request.job_tag()) continue;
    // First, so that no checkpoint looks whole and is not.
    const UniqueFd inside(openat(folder->fd(), name.c_str(), O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (inside.get() < 0) continue;  // a file or a link, which no job made
    ADJOIN_RETURN_IF_ERROR(RemoveFile(inside.get(), kManifestFile, dir, removed));
    ADJOIN_RETURN_IF_ERROR(RemoveTree(folder->fd(), name, dir, 0, removed));
  }
  if (dir == request.output_dir()) return absl::OkStatus();  // its turn comes
  return RemoveIfEmpty(root, dir, folder->fd(), {kOwnerFile}, removed);
}

absl::Status RemoveResults(const std::string& root, const RemoveFolders& request, RemovedFiles* removed) {
  const std::string& output = request.output_dir();
  const absl::StatusOr<HeldPath> home = HoldBelow(root, output.empty() ? "." : output);
  if (absl::IsNotFound(home.status())) return absl::OkStatus();
  ADJOIN_RETURN_IF_ERROR(home.status());
  ADJOIN_ASSIGN_OR_RETURN(const std::vector<std::string> names, NamesIn(home->fd(), output));
  if (std::find(names.begin(), names.end(), kEpochFile) == names.end()) {  // no attempt has begun there
    return RemoveIfEmpty(root, output, home->fd(), {kOwnerFile}, removed);
  }
  const absl::StatusOr<std::unique_ptr<FolderLock>> lock =
      FolderLock::Take(home->path(), absl::StrCat("the removal of ", request.job_id()), Deadline::After(kLockTimeout));
  if (!lock.ok()) return home->AsShown(lock.status());
  for (const std::string& name : names) {
    if (!IsAttemptOf(home->fd(), name, request.job_id(), request.store_id())) continue;
    if (IsWrittenTo(home->fd(), name)) {
      return absl::FailedPreconditionError(
          absl::StrCat("an attempt of ", request.job_id(), " still writes in '", output, "/", name, "'"));
    }
    ADJOIN_RETURN_IF_ERROR(RemoveTree(home->fd(), name, output, 0, removed));
  }
  const absl::StatusOr<AttemptNote> latest = ReadAttemptNote(PathIn(home->fd(), kEpochFile));
  if (!latest.ok()) return home->AsShown(latest.status());
  if (!latest->IsOf(request.job_id(), request.store_id())) return absl::OkStatus();  // they are another job's
  for (const std::string& name : request.artifact()) {
    struct stat info = {};
    if (name.empty() || absl::StrContains(name, "/") || IsReservedName(name)) continue;
    if (fstatat(home->fd(), name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(info.st_mode)) continue;
    ADJOIN_RETURN_IF_ERROR(RemoveFile(home->fd(), name, output, removed));
  }
  return RemoveIfEmpty(root, output, home->fd(), {kEpochFile, kLockFile, kOwnerFile}, removed);
}

// When something in the folder, or the folder itself, changed last.
absl::Time LastChange(int folder, const std::vector<std::string>& names) {
  struct stat info = {};
  absl::Time latest = fstat(folder, &info) == 0 ? absl::TimeFromTimespec(info.st_mtim) : absl::InfiniteFuture();
  for (const std::string& name : names) {
    if (fstatat(folder, name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) continue;
    latest = std::max(latest, absl::TimeFromTimespec(info.st_mtim));
  }
  return latest;
}

}  // namespace

absl::StatusOr<RemovedFiles> RemoveJobFiles(const std::string& root, const RemoveFolders& request,
                                            const MountCalls::Enter& enter, Deadline until) {
  if (request.job_id().empty()) return absl::InvalidArgumentError("no job is named");
  ADJOIN_RETURN_IF_ERROR(CheckFolder(root, request.output_dir(), request, enter));
  // Without a folder of checkpoints, the root's own note is none of the job's business.
  if (!request.checkpoint_dir().empty()) {
    ADJOIN_RETURN_IF_ERROR(CheckFolder(root, request.checkpoint_dir(), request, enter));
  }
  RemovedFiles removed;
  removed.until = until;
  ADJOIN_RETURN_IF_ERROR(RemoveCheckpoints(root, request, &removed));
  ADJOIN_RETURN_IF_ERROR(Enter(root, request.output_dir(), enter));
  ADJOIN_RETURN_IF_ERROR(RemoveResults(root, request, &removed));
  return removed;
}

void FolderRemover::Remove(const RemoveFolders& request) {
  auto removed = std::make_shared<RemovedFiles>();
  const absl::StatusOr<uint64_t> called = calls_.Call(
      [root = output_root_, request, removed,
       until = Deadline::After(kRemovalTimeout)](const MountCalls::Enter& enter) -> absl::Status {
        ADJOIN_ASSIGN_OR_RETURN(*removed, RemoveJobFiles(root, request, enter, until));
        return absl::OkStatus();
      },
      [this, id = request.request_id(), removed](const absl::Status& status) {
        Answer(id, status, status.ok() ? *removed : RemovedFiles());  // a call that is late may still set it
      });
  if (called.ok()) return;
  Answer(request.request_id(),
         absl::IsUnavailable(called.status())
             ? called.status()
             : absl::ResourceExhaustedError("the worker removes the files of other jobs already: try again later"),
         {});
}

void FolderRemover::Answer(const std::string& request_id, const absl::Status& status, const RemovedFiles& removed) {
  WorkerMessage message;
  *message.mutable_header() = MakeHeader();
  FoldersRemoved& answer = *message.mutable_folders_removed();
  answer.set_request_id(request_id);
  answer.set_files(removed.files);
  answer.set_bytes(removed.bytes);
  answer.set_error(PrintableText(std::string(status.message()), kMaxErrorBytes));
  send_(std::move(message));
}

absl::StatusOr<int> RemoveAttemptFolders(
    const std::string& root, const AttemptFolders& job,
    const std::function<bool(const std::string& name, absl::Time changed)>& is_old) {
  const absl::StatusOr<HeldPath> home = HoldBelow(root, job.output_dir.empty() ? "." : job.output_dir);
  if (absl::IsNotFound(home.status())) return 0;
  ADJOIN_RETURN_IF_ERROR(home.status());
  ADJOIN_ASSIGN_OR_RETURN(const std::vector<std::string> names, NamesIn(home->fd(), job.output_dir));
  int left = 0;
  for (const std::string& name : names) {
    if (!IsAttemptOf(home->fd(), name, job.job_id, job.store_id)) continue;
    const UniqueFd folder(openat(home->fd(), name.c_str(), O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    const absl::StatusOr<std::vector<std::string>> inside = NamesIn(folder.get(), name);
    RemovedFiles removed;
    const bool old = inside.ok() && is_old(name, LastChange(folder.get(), *inside)) && !IsWrittenTo(home->fd(), name);
    if (!old || !RemoveTree(home->fd(), name, job.output_dir, 0, &removed).ok()) ++left;
  }
  return left;
}

}  // namespace adjoin
