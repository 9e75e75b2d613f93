#include "worker/session/attempt_output.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
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
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "base/output_dir.h"
#include "base/status_macros.h"
#include "base/sync_folder.h"
#include "worker/training/metrics_writer.h"

namespace adjoin {
namespace {

constexpr char kEpochFile[] = ".epoch";
constexpr char kLockFile[] = ".epoch.lock";
constexpr char kAttemptFile[] = ".attempt";  // in an attempt's folder: names the attempt
constexpr char kStorePrefix[] = "store-";
constexpr absl::Duration kBetweenTries = absl::Milliseconds(10);

absl::Status Failed(const std::string& path, int error) {
  return absl::UnavailableError(absl::StrCat(path, ": ", strerror(error)));
}

absl::Status SyncNamesIn(const std::string& folder) {
  const int error = SyncFolder(folder);
  return error == 0 ? absl::OkStatus() : Failed(folder, error);
}

// The lock of one folder, held until its destruction or the end of the process.
class FolderLock {
 public:
  static absl::StatusOr<std::unique_ptr<FolderLock>> Take(const std::string& folder, Deadline deadline) {
    const std::string path = absl::StrCat(folder, "/", kLockFile);
    std::unique_ptr<FolderLock> lock(
        new FolderLock(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644)));
    if (lock->fd_ < 0) return Failed(path, errno);
    // A file system without locks fails otherwise; the attempt then goes on without one.
    while (flock(lock->fd_, LOCK_EX | LOCK_NB) != 0 && (errno == EWOULDBLOCK || errno == EINTR)) {
      if (deadline.Expired()) {
        return absl::DeadlineExceededError(absl::StrCat(path, ": another attempt keeps it locked"));
      }
      absl::SleepFor(kBetweenTries);
    }
    return lock;
  }
  ~FolderLock() {
    if (fd_ >= 0) close(fd_);
  }
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  explicit FolderLock(int fd) : fd_(fd) {}
  const int fd_;
};

// The content of .epoch and .attempt: "5 job-12 store-00000000000000ff".
struct Note {
  uint64_t epoch = 0;
  std::string job_id;
  uint64_t store_id = 0;  // 0 where the file names none

  bool operator==(const Note& other) const {
    return epoch == other.epoch && job_id == other.job_id && store_id == other.store_id;
  }
};

// Epoch 0 where there is no such file.
absl::StatusOr<Note> ReadNote(const std::string& path) {
  Note latest;
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (fd < 0 && errno == ENOENT) return latest;
  if (fd < 0) return Failed(path, errno);
  absl::Cleanup close_fd = [fd] { close(fd); };
  char text[256];
  const ssize_t size = read(fd, text, sizeof(text));
  if (size < 0) return Failed(path, errno);
  absl::string_view line(text, size);
  absl::ConsumeSuffix(&line, "\n");
  const std::vector<absl::string_view> words = absl::StrSplit(line, ' ');
  if (!absl::SimpleAtoi(words[0], &latest.epoch)) {
    return absl::DataLossError(
        absl::StrCat(path, ": begins with '", words[0],
                     "', which is not the number of an attempt; remove it if no job writes there"));
  }
  if (words.size() > 1) latest.job_id = std::string(words[1]);
  if (words.size() > 2 && (words.size() > 3 || !absl::StartsWith(words[2], kStorePrefix) ||
                           !absl::SimpleHexAtoi(absl::StripPrefix(words[2], kStorePrefix), &latest.store_id))) {
    return absl::DataLossError(absl::StrCat(path, ": '", line, "' does not end with a store, such as ", kStorePrefix,
                                            "12ab; remove it if no job writes there"));
  }
  return latest;
}

absl::StatusOr<Note> ReadEpoch(const std::string& home) { return ReadNote(absl::StrCat(home, "/", kEpochFile)); }

absl::Status WriteNote(const std::string& folder, const std::string& name, const Note& latest) {
  const std::string path = absl::StrCat(folder, "/", name);
  const std::string temporary = absl::StrCat(path, ".new");
  const int fd = open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0644);
  if (fd < 0) return Failed(temporary, errno);
  absl::Cleanup close_fd = [fd] { close(fd); };
  const std::string text = absl::StrCat(latest.epoch, " ", latest.job_id, " ", kStorePrefix,
                                        absl::Hex(latest.store_id, absl::kZeroPad16), "\n");
  errno = ENOSPC;  // for a write that is cut short
  if (write(fd, text.data(), text.size()) != static_cast<ssize_t>(text.size())) return Failed(temporary, errno);
  if (fsync(fd) != 0) return Failed(temporary, errno);
  if (std::rename(temporary.c_str(), path.c_str()) != 0) return Failed(path, errno);
  return SyncNamesIn(folder);
}

absl::Status NoLonger(uint64_t epoch, const Note& latest, const std::string& home) {
  const std::string job = latest.job_id.empty() ? "" : absl::StrCat(" (", latest.job_id, ")");
  return absl::FailedPreconditionError(absl::StrCat("attempt ", epoch, " is no longer the job's: attempt ",
                                                    latest.epoch, " has begun", job, ", as ", home, "/", kEpochFile,
                                                    " records"));
}

// True where an attempt made this folder, and not a user or another program.
bool IsOfAttempt(const std::string& folder, uint64_t epoch) {
  const absl::StatusOr<Note> note = ReadNote(absl::StrCat(folder, "/", kAttemptFile));
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
absl::Status TakeOver(const std::string& home, const Note& mine) {
  ADJOIN_ASSIGN_OR_RETURN(const Note latest, ReadEpoch(home));
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
absl::Status Mark(const HeldPath& folder, const Note& mine) {
  if (IsOfAttempt(folder.path(), mine.epoch)) return absl::OkStatus();
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path(), error)) {
    const std::string name = entry.path().filename();
    if (absl::StartsWith(name, kAttemptFile)) continue;  // its attempt died right here
    return absl::FailedPreconditionError(absl::StrCat(folder.shown(), ": no attempt made this folder, and '", name,
                                                      "' is in it; move it elsewhere, or choose another output_dir"));
  }
  if (error) return folder.AsShown(Failed(folder.path(), error.value()));
  return folder.AsShown(WriteNote(folder.path(), kAttemptFile, mine));
}

}  // namespace

absl::StatusOr<std::unique_ptr<AttemptOutput>> AttemptOutput::Begin(Options options, Deadline deadline) {
  std::error_code error;
  std::filesystem::create_directories(options.root, error);  // where it fails, the next line reports it
  ADJOIN_ASSIGN_OR_RETURN(HeldPath home, HoldFolder(options.root, options.output_dir));
  std::string relative = options.output_dir;
  std::unique_ptr<FolderLock> lock;
  const Note mine{options.epoch, options.job_id, options.store_id};
  if (options.epoch != 0) {
    auto taken = FolderLock::Take(home.path(), deadline);
    if (!taken.ok()) return home.AsShown(taken.status());
    lock = *std::move(taken);
    ADJOIN_RETURN_IF_ERROR(home.AsShown(TakeOver(home.path(), mine)));
    absl::StrAppend(&relative, relative.empty() ? "" : "/", AttemptFolder(options.epoch));
  }
  ADJOIN_ASSIGN_OR_RETURN(HeldPath folder, HoldFolder(options.root, relative));
  if (lock != nullptr) ADJOIN_RETURN_IF_ERROR(Mark(folder, mine));
  return std::unique_ptr<AttemptOutput>(new AttemptOutput(std::move(options), std::move(home), std::move(folder)));
}

absl::Status AttemptOutput::CheckLatest() const {
  if (options_.epoch == 0) return absl::OkStatus();
  const absl::StatusOr<Note> latest = ReadEpoch(home_.path());
  if (!latest.ok()) return home_.AsShown(latest.status());
  if (*latest == Note{options_.epoch, options_.job_id, options_.store_id}) return absl::OkStatus();
  return home_.AsShown(NoLonger(options_.epoch, *latest, home_.path()));
}

absl::Status AttemptOutput::Publish(const std::vector<std::string>& files, Deadline deadline) {
  if (options_.epoch == 0) return absl::OkStatus();
  const std::string home = home_.path();
  const auto lock = FolderLock::Take(home, deadline);
  if (!lock.ok()) return home_.AsShown(lock.status());
  ADJOIN_RETURN_IF_ERROR(CheckLatest());
  for (const std::string& file : files) {
    const std::string from = absl::StrCat(folder(), "/", file);
    if (std::rename(from.c_str(), absl::StrCat(home, "/", file).c_str()) != 0) return AsShown(Failed(from, errno));
  }
  ADJOIN_RETURN_IF_ERROR(home_.AsShown(SyncNamesIn(home)));
  std::error_code ignored;  // the results are there
  std::filesystem::remove_all(absl::StrCat(home, "/", AttemptFolder(options_.epoch)), ignored);
  return absl::OkStatus();
}

}  // namespace adjoin
