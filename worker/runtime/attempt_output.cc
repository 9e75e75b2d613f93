#include "worker/runtime/attempt_output.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <optional>
#include <system_error>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "base/status_macros.h"
#include "worker/runtime/metrics_writer.h"
#include "worker/runtime/path_rules.h"

namespace adjoin {
namespace {

constexpr char kEpochFile[] = ".epoch";
constexpr char kLockFile[] = ".epoch.lock";
constexpr char kAttemptPrefix[] = "attempt-";
constexpr char kMetricsFile[] = "metrics.jsonl";  // which a MetricsWriter locks while its attempt runs
constexpr absl::Duration kBetweenTries = absl::Milliseconds(10);

absl::Status Failed(const std::filesystem::path& path, int error) {
  return absl::UnavailableError(absl::StrCat(path.string(), ": ", strerror(error)));
}

absl::Status SyncFolder(const std::filesystem::path& folder) {
  const int fd = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return Failed(folder, errno);
  const int error = fsync(fd) == 0 ? 0 : errno;
  close(fd);
  return error == 0 ? absl::OkStatus() : Failed(folder, error);
}

// Of one folder; gone with its destruction or the process.
class FolderLock {
 public:
  static absl::StatusOr<std::unique_ptr<FolderLock>> Take(const std::filesystem::path& folder, Deadline deadline) {
    const std::filesystem::path path = folder / kLockFile;
    std::unique_ptr<FolderLock> lock(new FolderLock(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644)));
    if (lock->fd_ < 0) return Failed(path, errno);
    // Where the file system has no locks, there is none to respect.
    while (flock(lock->fd_, LOCK_EX | LOCK_NB) != 0 && (errno == EWOULDBLOCK || errno == EINTR)) {
      if (deadline.Expired()) {
        return absl::DeadlineExceededError(absl::StrCat(path.string(), ": another attempt keeps it locked"));
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

// What .epoch says: "5 job-12".
struct Latest {
  uint64_t epoch = 0;
  std::string job_id;
};

// Epoch 0 where no attempt has begun.
absl::StatusOr<Latest> ReadEpoch(const std::filesystem::path& home) {
  const std::filesystem::path path = home / kEpochFile;
  Latest latest;
  std::ifstream in(path);
  if (!in.is_open()) {
    if (errno == ENOENT) return latest;
    return Failed(path, errno);
  }
  std::string text;
  std::getline(in, text);
  const std::pair<std::string, std::string> words = absl::StrSplit(text, absl::MaxSplits(' ', 1));
  if (!absl::SimpleAtoi(words.first, &latest.epoch)) {
    return absl::DataLossError(absl::StrCat(path.string(), ": begins with '", words.first,
                                            "', which is not the number of an attempt; remove it if no job writes there"));
  }
  latest.job_id = words.second;
  return latest;
}

std::string FolderOf(uint64_t epoch) { return absl::StrCat(kAttemptPrefix, epoch); }

absl::Status NoLonger(uint64_t epoch, const Latest& latest, const std::filesystem::path& home) {
  return absl::FailedPreconditionError(absl::StrCat(
      "attempt ", epoch, " is no longer the job's: attempt ", latest.epoch, " has begun", latest.job_id.empty() ? "" : " (",
      latest.job_id, latest.job_id.empty() ? "" : ")", ", says ", (home / kEpochFile).string()));
}

}  // namespace

absl::StatusOr<std::unique_ptr<AttemptOutput>> AttemptOutput::Begin(Options options, Deadline deadline) {
  std::error_code error;
  std::filesystem::create_directories(options.root, error);
  ADJOIN_RETURN_IF_ERROR(CheckOutputPath(options.root, options.output_dir));
  const std::filesystem::path home = std::filesystem::path(options.root) / options.output_dir;
  std::filesystem::create_directories(home, error);
  if (error) return absl::UnavailableError(absl::StrCat(home.string(), ": ", error.message()));
  std::unique_ptr<AttemptOutput> output(new AttemptOutput(std::move(options), home));
  output->folder_ = home;
  if (output->options_.epoch == 0) return output;
  ADJOIN_ASSIGN_OR_RETURN(const auto lock, FolderLock::Take(home, deadline));
  ADJOIN_RETURN_IF_ERROR(output->TakeOver());
  return output;
}

absl::Status AttemptOutput::TakeOver() {
  ADJOIN_ASSIGN_OR_RETURN(const Latest latest, ReadEpoch(home_));
  // A rank of this job may live on for a while, and is fenced off. Another job's result must not be thrown away like that.
  const bool another = latest.epoch != 0 && latest.job_id != options_.job_id;
  if (another && MetricsWriter::InUse((home_ / FolderOf(latest.epoch) / kMetricsFile).string())) {
    return absl::FailedPreconditionError(absl::StrCat(home_.string(), ": another job, ", latest.job_id,
                                                      ", is writing there; right would be an output_dir of its own for"
                                                      " each job"));
  }
  if (latest.epoch > options_.epoch) {
    const absl::Status no_longer = NoLonger(options_.epoch, latest, home_);
    return absl::FailedPreconditionError(absl::StrCat(
        std::string(no_longer.message()), "; remove this file if the coordinator began anew, with an empty store"));
  }
  ADJOIN_RETURN_IF_ERROR(WriteEpoch());
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(home_, error)) {
    const std::string name = entry.path().filename();
    absl::string_view number = name;
    uint64_t epoch = 0;
    if (!absl::ConsumePrefix(&number, kAttemptPrefix) || !absl::SimpleAtoi(number, &epoch)) continue;
    std::error_code ignored;  // what is left there harms nobody
    if (epoch < options_.epoch) std::filesystem::remove_all(entry.path(), ignored);
  }
  const std::string folder = FolderOf(options_.epoch);
  folder_ = home_ / folder;
  ADJOIN_RETURN_IF_ERROR(CheckOutputPath(home_.string(), folder));
  std::filesystem::create_directory(folder_, error);
  if (error) return absl::UnavailableError(absl::StrCat(folder_.string(), ": ", error.message()));
  return absl::OkStatus();
}

absl::Status AttemptOutput::WriteEpoch() const {
  const std::filesystem::path path = home_ / kEpochFile;
  const std::filesystem::path temporary = home_ / absl::StrCat(kEpochFile, ".new");
  const int fd = open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0644);
  if (fd < 0) return Failed(temporary, errno);
  absl::Cleanup close_fd = [fd] { close(fd); };
  const std::string text = absl::StrCat(options_.epoch, " ", options_.job_id, "\n");
  errno = ENOSPC;  // of a write that is cut short
  if (write(fd, text.data(), text.size()) != static_cast<ssize_t>(text.size())) return Failed(temporary, errno);
  if (fsync(fd) != 0) return Failed(temporary, errno);
  if (std::rename(temporary.c_str(), path.c_str()) != 0) return Failed(path, errno);
  return SyncFolder(home_);
}

absl::Status AttemptOutput::CheckLatest() const {
  if (options_.epoch == 0) return absl::OkStatus();
  ADJOIN_ASSIGN_OR_RETURN(const Latest latest, ReadEpoch(home_));
  if (latest.epoch == options_.epoch && latest.job_id == options_.job_id) return absl::OkStatus();
  return NoLonger(options_.epoch, latest, home_);
}

absl::Status AttemptOutput::Publish(const std::vector<std::string>& files, Deadline deadline) {
  if (options_.epoch == 0) return absl::OkStatus();
  ADJOIN_ASSIGN_OR_RETURN(const auto lock, FolderLock::Take(home_, deadline));
  ADJOIN_RETURN_IF_ERROR(CheckLatest());
  for (const std::string& file : files) {
    if (std::rename((folder_ / file).c_str(), (home_ / file).c_str()) != 0) return Failed(folder_ / file, errno);
  }
  ADJOIN_RETURN_IF_ERROR(SyncFolder(home_));
  std::error_code ignored;  // the results are there
  std::filesystem::remove_all(folder_, ignored);
  return absl::OkStatus();
}

}  // namespace adjoin
