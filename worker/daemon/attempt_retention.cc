#include "worker/daemon/attempt_retention.h"

#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/errno_status.h"
#include "base/logging.h"
#include "base/state_folder.h"

namespace adjoin {
namespace {

// From the order to start ranks until they have their folder, at most.
constexpr absl::Duration kUntilItBegins = absl::Minutes(3);
// From the moment when an attempt has its folder until a file in it shows that it is in use.
constexpr absl::Duration kUntilItWrites = absl::Seconds(5);

// "STORE JOB\0FOLDER": a folder's name has any other byte.
std::string RecordOf(const AttemptFolders& job) {
  return absl::StrCat(absl::Hex(job.store_id, absl::kZeroPad16), " ", job.job_id, std::string(1, '\0'), job.output_dir);
}

std::optional<AttemptFolders> ReadRecord(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const size_t space = text.find(' '), zero = text.find('\0');
  AttemptFolders job;
  if (space == std::string::npos || zero == std::string::npos || zero < space) return std::nullopt;
  if (!absl::SimpleHexAtoi(text.substr(0, space), &job.store_id)) return std::nullopt;
  job.job_id = text.substr(space + 1, zero - space - 1);
  job.output_dir = text.substr(zero + 1);
  return job;
}

}  // namespace

absl::Status AttemptRetention::Began(const AttemptFolders& job) {
  if (mkdir(options_.folder.c_str(), 0700) != 0 && errno != EEXIST) return ErrnoStatus(errno, options_.folder);
  if (job.job_id.find('/') != std::string::npos) return absl::InvalidArgumentError("a job's id has no '/'");
  ++unswept_;
  return WriteFileAtomically(
      absl::StrCat(options_.folder, "/", absl::Hex(job.store_id, absl::kZeroPad16), "-", job.job_id), RecordOf(job));
}

int AttemptRetention::Sweep() {
  if (sweeping_.exchange(true)) return 0;
  const absl::Cleanup done = [this] { sweeping_ = false; };
  unswept_ = 0;
  std::vector<std::string> records;
  std::error_code ignored;  // no job has been here yet
  for (const auto& entry : std::filesystem::directory_iterator(options_.folder, ignored)) {
    records.push_back(entry.path());
  }
  int left = 0;
  for (const std::string& record : records) {
    const std::optional<AttemptFolders> job = ReadRecord(record);
    const absl::Time now = options_.now();
    // A job whose ranks have just been asked for makes its folder only now.
    struct stat info = {};
    const bool fresh = stat(record.c_str(), &info) == 0 && absl::TimeFromTimespec(info.st_mtim) > now - kUntilItBegins;
    if (!job.has_value()) {
      if (!fresh) unlink(record.c_str());
      continue;
    }
    const absl::StatusOr<int> folders =
        RemoveAttemptFolders(options_.output_root, *job, now - std::max(options_.keep, kUntilItWrites));
    if (!folders.ok()) {
      LogWarning(absl::StrCat("folders of ended attempts of ", job->job_id,
                              " stay: ", std::string(folders.status().message())));
    }
    if (folders.ok() && *folders == 0 && !fresh) {
      unlink(record.c_str());
    } else {
      ++left;
    }
  }
  return left;
}

}  // namespace adjoin
