#include "worker/session/attempt_output.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/infrastructure_failure.h"
#include "base/new_file.h"
#include "base/output_dir.h"
#include "base/status_macros.h"
#include "base/sync_folder.h"
#include "worker/session/attempt_notes.h"
#include "worker/training/metrics_writer.h"

namespace adjoin {
namespace {

constexpr absl::Duration kRestoreTimeout = absl::Seconds(10);  // for the lock

absl::Status OutputFailed(const std::string& path, int error) {
  return absl::UnavailableError(absl::StrCat(path, ": ", strerror(error)));
}

// "attempt 5 of job-12"
std::string Name(const AttemptOutput::Options& options) {
  return absl::StrCat("attempt ", options.epoch, " of ", options.job_id);
}

absl::Status SyncNamesIn(const std::string& folder) {
  const int error = SyncFolder(folder);
  return error == 0 ? absl::OkStatus() : OutputFailed(folder, error);
}

absl::Status WriteNote(const std::string& folder, const std::string& name, const AttemptNote& latest) {
  const std::string path = absl::StrCat(folder, "/", name);
  const std::string temporary = absl::StrCat(path, ".new");
  const int fd = open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0644);
  if (fd < 0) return OutputFailed(temporary, errno);
  absl::Cleanup close_fd = [fd] { close(fd); };
  const std::string text = latest.ToText();
  errno = ENOSPC;  // for a write that is cut short
  if (write(fd, text.data(), text.size()) != static_cast<ssize_t>(text.size())) return OutputFailed(temporary, errno);
  if (fsync(fd) != 0) return OutputFailed(temporary, errno);
  if (std::rename(temporary.c_str(), path.c_str()) != 0) return OutputFailed(path, errno);
  return SyncNamesIn(folder);
}

absl::StatusOr<AttemptNote> ReadEpoch(const std::string& home) {
  return ReadAttemptNote(absl::StrCat(home, "/", kEpochFile));
}

bool IsThere(const std::string& path) {
  struct stat info = {};
  return stat(path.c_str(), &info) == 0 || (errno != ENOENT && errno != ENOTDIR && errno != ESTALE);
}

bool IsRemoved(const HeldPath& folder) {
  struct stat info = {};
  return fstat(folder.fd(), &info) != 0 || info.st_nlink == 0;
}

// An error that tells that the root of all results is not there, if it is not.
absl::Status CheckRoot(const std::string& root) {
  if (IsThere(root)) return absl::OkStatus();
  return InfrastructureFailure(
      absl::UnavailableError("the worker's output root is gone: its folder was removed, or is no longer mounted"));
}

absl::Status NoLonger(uint64_t epoch, const AttemptNote& latest, const std::string& home) {
  const std::string job = latest.job_id.empty() ? "" : absl::StrCat(" (", latest.job_id, ")");
  return absl::FailedPreconditionError(absl::StrCat("attempt ", epoch, " is no longer the job's: attempt ",
                                                    latest.epoch, " has begun", job, ", as ", home, "/", kEpochFile,
                                                    " records"));
}

// True where an attempt made this folder, and not a user or another program.
bool IsOfAttempt(const std::string& folder, uint64_t epoch) {
  const absl::StatusOr<AttemptNote> note = ReadAttemptNote(absl::StrCat(folder, "/", kAttemptFile));
  return note.ok() && note->epoch != 0 && note->epoch == epoch;
}

// Removes the folders of attempts that can no longer publish: all but that of `but`.
void RemoveOthers(const std::string& home, uint64_t but) {
  std::error_code ignored;  // a folder that stays does no harm
  for (const auto& entry : std::filesystem::directory_iterator(home, ignored)) {
    const std::string name = entry.path().filename();
    absl::string_view number = name;
    uint64_t epoch = 0;
    if (!absl::ConsumePrefix(&number, kAttemptPrefix) || !absl::SimpleAtoi(number, &epoch)) continue;
    if (epoch == but) continue;
    if (IsOfAttempt(entry.path(), epoch)) {
      std::filesystem::remove_all(entry.path(), ignored);
    } else {
      rmdir(entry.path().c_str());  // removes an empty one: its attempt died when it had just made it
    }
  }
}

// Makes `mine` the latest attempt. With the folder locked.
absl::Status TakeOver(const std::string& home, const AttemptNote& mine) {
  ADJOIN_ASSIGN_OR_RETURN(const AttemptNote latest, ReadEpoch(home));
  // A rank of this job may live on for a while, and is fenced off. Another job's result must not be thrown away like
  // that.
  const bool same_store = latest.store_id == mine.store_id;
  const bool another_job = latest.epoch != 0 && !(same_store && latest.job_id == mine.job_id);
  // A running attempt's MetricsWriter keeps its file locked.
  if (another_job && MetricsWriter::InUse(absl::StrCat(home, "/", AttemptFolder(latest.epoch), "/", kMetricsFile))) {
    return absl::FailedPreconditionError(absl::StrCat(home, ": another job, ", latest.job_id,
                                                      ", is writing there; right would be an output_dir of its own for"
                                                      " each job"));
  }
  if (same_store && latest.epoch > mine.epoch) return NoLonger(mine.epoch, latest, home);
  ADJOIN_RETURN_IF_ERROR(WriteNote(home, kEpochFile, mine));
  RemoveOthers(home, same_store ? mine.epoch : 0);
  return absl::OkStatus();
}

// Marks the folder as an attempt's. With `home` locked.
absl::Status Mark(const HeldPath& folder, const AttemptNote& mine) {
  if (IsOfAttempt(folder.path(), mine.epoch)) return absl::OkStatus();
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path(), error)) {
    const std::string name = entry.path().filename();
    if (absl::StartsWith(name, kAttemptFile)) continue;  // its attempt died right here
    return absl::FailedPreconditionError(absl::StrCat(folder.shown(), ": no attempt made this folder, and '", name,
                                                      "' is in it; move it elsewhere, or choose another output_dir"));
  }
  if (error) return folder.AsShown(OutputFailed(folder.path(), error.value()));
  return folder.AsShown(WriteNote(folder.path(), kAttemptFile, mine));
}

}  // namespace

absl::StatusOr<std::unique_ptr<AttemptOutput>> AttemptOutput::Begin(Options options, Deadline deadline) {
  std::error_code error;
  std::filesystem::create_directories(options.root, error);  // where it fails, Make reports it
  ADJOIN_ASSIGN_OR_RETURN(Folders folders, Make(options, deadline));
  return std::unique_ptr<AttemptOutput>(new AttemptOutput(std::move(options), std::move(folders)));
}

absl::StatusOr<AttemptOutput::Folders> AttemptOutput::Make(const Options& options, Deadline deadline) {
  ADJOIN_RETURN_IF_ERROR(CheckRoot(options.root));
  ADJOIN_ASSIGN_OR_RETURN(HeldPath home, HoldFolder(options.root, options.output_dir));
  std::string relative = options.output_dir;
  std::unique_ptr<FolderLock> lock;
  const AttemptNote mine{options.epoch, options.job_id, options.store_id};
  if (options.epoch != 0) {
    auto taken = FolderLock::Take(home.path(), Name(options), deadline);
    if (!taken.ok()) return home.AsShown(taken.status());
    lock = *std::move(taken);
    ADJOIN_RETURN_IF_ERROR(home.AsShown(TakeOver(home.path(), mine)));
    absl::StrAppend(&relative, relative.empty() ? "" : "/", AttemptFolder(options.epoch));
  }
  ADJOIN_ASSIGN_OR_RETURN(HeldPath folder, HoldFolder(options.root, relative));
  if (lock != nullptr) ADJOIN_RETURN_IF_ERROR(Mark(folder, mine));
  return Folders{std::move(home), std::move(folder)};
}

const AttemptOutput::Folders& AttemptOutput::folders() const {
  absl::MutexLock lock(&mutex_);
  return *made_.back();
}

std::string AttemptOutput::folder() const { return folders().folder.path(); }

absl::Status AttemptOutput::AsShown(const absl::Status& status) const { return folders().folder.AsShown(status); }

absl::Status AttemptOutput::Restore(Deadline deadline) {
  absl::StatusOr<Folders> again = Make(options_, deadline);
  if (!again.ok()) {
    absl::Status failed(
        again.status().code(),
        absl::StrCat("output_dir '", options_.output_dir,
                     "' was removed while the job ran and cannot be made again: ", again.status().message()));
    return IsInfrastructureFailure(again.status()) ? InfrastructureFailure(std::move(failed)) : failed;
  }
  absl::MutexLock lock(&mutex_);
  made_.push_back(std::make_unique<Folders>(*std::move(again)));
  return absl::OkStatus();
}

absl::Status AttemptOutput::CheckLatest() {
  if (options_.epoch == 0) return absl::OkStatus();
  absl::MutexLock restoring(&restoring_);
  ADJOIN_RETURN_IF_ERROR(CheckRoot(options_.root));
  const HeldPath& home = folders().home;
  const absl::StatusOr<AttemptNote> latest = ReadEpoch(home.path());
  if (!latest.ok()) return home.AsShown(latest.status());
  const bool mine = *latest == AttemptNote{options_.epoch, options_.job_id, options_.store_id};
  if (mine && !IsRemoved(folders().folder)) return absl::OkStatus();
  if (mine || latest->epoch == 0) return Restore(Deadline::After(kRestoreTimeout));
  return home.AsShown(NoLonger(options_.epoch, *latest, home.path()));
}

absl::Status AttemptOutput::Publish(const std::vector<std::string>& files, Deadline deadline) {
  if (options_.epoch == 0) return absl::OkStatus();
  ADJOIN_RETURN_IF_ERROR(CheckLatest());  // makes it again, if need be
  const HeldPath& held = folders().home;
  const std::string home = held.path();
  const auto lock = FolderLock::Take(home, Name(options_), deadline);
  if (!lock.ok()) return held.AsShown(lock.status());
  const absl::StatusOr<AttemptNote> latest = ReadEpoch(home);
  if (!latest.ok()) return held.AsShown(latest.status());
  if (!(*latest == AttemptNote{options_.epoch, options_.job_id, options_.store_id})) {
    return held.AsShown(NoLonger(options_.epoch, *latest, home));
  }
  for (const std::string& file : files) {
    const std::string from = absl::StrCat(folder(), "/", file);
    const absl::Status moved = ReplaceFile(from, absl::StrCat(home, "/", file));
    if (!moved.ok()) return AsShown(held.AsShown(moved));
  }
  ADJOIN_RETURN_IF_ERROR(held.AsShown(SyncNamesIn(home)));
  std::error_code ignored;  // the results are there
  std::filesystem::remove_all(absl::StrCat(home, "/", AttemptFolder(options_.epoch)), ignored);
  return absl::OkStatus();
}

}  // namespace adjoin
