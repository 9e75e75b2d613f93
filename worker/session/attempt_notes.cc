#include "worker/session/attempt_notes.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "base/infrastructure_failure.h"
#include "base/printable_text.h"

namespace adjoin {
namespace {

constexpr char kStorePrefix[] = "store-";
constexpr absl::Duration kBetweenTries = absl::Milliseconds(10);

absl::Status NoteFailed(const std::string& path, int error) {
  return absl::UnavailableError(absl::StrCat(path, ": ", strerror(error)));
}

}  // namespace

std::string AttemptNote::ToText() const {
  return absl::StrCat(epoch, " ", job_id, " ", kStorePrefix, absl::Hex(store_id, absl::kZeroPad16), "\n");
}

absl::StatusOr<AttemptNote> ReadAttemptNote(const std::string& path) {
  AttemptNote latest;
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (fd < 0 && errno == ENOENT) return latest;
  if (fd < 0) return NoteFailed(path, errno);
  absl::Cleanup close_fd = [fd] { close(fd); };
  char text[256];
  const ssize_t size = read(fd, text, sizeof(text));
  if (size < 0) return NoteFailed(path, errno);
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

absl::StatusOr<std::unique_ptr<FolderLock>> FolderLock::Take(const std::string& folder, const std::string& holder,
                                                             Deadline deadline) {
  const std::string path = absl::StrCat(folder, "/", kLockFile);
  std::unique_ptr<FolderLock> lock(new FolderLock(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644)));
  if (lock->fd_ < 0) return NoteFailed(path, errno);
  // A file system without locks fails otherwise; the attempt then goes on without one.
  while (flock(lock->fd_, LOCK_EX | LOCK_NB) != 0 && (errno == EWOULDBLOCK || errno == EINTR)) {
    if (deadline.Expired()) {
      return InfrastructureFailure(absl::UnavailableError(
          absl::StrCat(path, ": ", lock->Holder(), " keeps it locked and does not go on; end that process")));
    }
    absl::SleepFor(kBetweenTries);
  }
  lock->NameHolder(holder);
  return lock;
}

FolderLock::~FolderLock() {
  if (fd_ >= 0) close(fd_);
}

// The file's text is for people only: that of the last holder stays in it.
void FolderLock::NameHolder(const std::string& holder) {
  char host[256] = "";
  gethostname(host, sizeof(host) - 1);
  const std::string text = absl::StrCat("process ", getpid(), " on ", host, " (", holder, ")\n");
  if (ftruncate(fd_, 0) != 0 || pwrite(fd_, text.data(), text.size(), 0) < 0) return;  // a full disk, say
}

std::string FolderLock::Holder() {
  char text[512];
  const ssize_t size = pread(fd_, text, sizeof(text), 0);
  const std::vector<std::string> lines = absl::StrSplit(absl::string_view(text, std::max<ssize_t>(size, 0)), '\n');
  return lines[0].empty() ? "another process" : PrintableText(lines[0]);
}

}  // namespace adjoin
