#include "worker/daemon/attempt_retention.h"

#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "base/errno_status.h"
#include "base/logging.h"
#include "base/state_folder.h"
#include "worker/daemon/mount_points.h"

namespace adjoin {
namespace {

// From the order to start ranks until they have their folder, at most.
constexpr absl::Duration kUntilItBegins = absl::Minutes(3);
// From the moment when an attempt has its folder until a file in it shows that it is in use.
constexpr absl::Duration kUntilItWrites = absl::Seconds(5);
constexpr absl::Duration kBetweenSaves = absl::Minutes(10);

// "STORE JOB\0FOLDER": a folder's name has any other byte.
std::string RecordOf(const AttemptFolders& job) {
  return absl::StrCat(absl::Hex(job.store_id, absl::kZeroPad16), " ", job.job_id, std::string(1, '\0'), job.output_dir);
}

std::string NameOf(const AttemptFolders& job) {
  return absl::StrCat(absl::Hex(job.store_id, absl::kZeroPad16), "-", job.job_id);
}

std::string AgesPath(const std::string& folder) { return folder + ".ages"; }

bool IsUnfinished(const std::string& name) { return absl::EndsWith(name, kUnfinishedSuffix); }

// Returns the names in a folder; sets `whole` where these are all.
std::vector<std::string> NamesIn(const std::string& folder, bool* whole) {
  std::vector<std::string> names;
  std::error_code error;
  std::filesystem::directory_iterator entry(folder, error);
  for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    names.push_back(entry->path().filename());
  }
  *whole = !error;
  return names;
}

// Removes what a daemon that crashed was writing: files in a folder whose names begin so.
void RemoveUnfinished(const std::string& folder, const std::string& prefix) {
  bool whole = false;
  for (const std::string& name : NamesIn(folder, &whole)) {
    if (absl::StartsWith(name, prefix) && IsUnfinished(name)) unlink(absl::StrCat(folder, "/", name).c_str());
  }
}

std::string ReadText(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::optional<AttemptFolders> ReadRecord(const std::string& path) {
  const std::string text = ReadText(path);
  const size_t space = text.find(' '), zero = text.find('\0');
  AttemptFolders job;
  if (space == std::string::npos || zero == std::string::npos || zero < space) return std::nullopt;
  if (!absl::SimpleHexAtoi(text.substr(0, space), &job.store_id)) return std::nullopt;
  job.job_id = text.substr(space + 1, zero - space - 1);
  job.output_dir = text.substr(zero + 1);
  return job;
}

}  // namespace

AttemptRetention::AttemptRetention(Options options)
    : options_(std::move(options)), ages_(options_.wall, options_.steady, Load(AgesPath(options_.folder), &seen_)) {
  RemoveUnfinished(options_.folder, "");
  const std::filesystem::path ages = AgesPath(options_.folder);
  RemoveUnfinished(ages.has_parent_path() ? ages.parent_path().string() : ".", ages.filename().string() + ".");
}

// "AGE_MS WALL_MS" on the first line: the AgeMark; then "SINCE_MS CHANGED_NS RECORD FOLDER". What cannot be read is as
// if it had not been seen yet.
std::optional<AgeMark> AttemptRetention::Load(const std::string& path, SeenFolders* seen) {
  std::optional<AgeMark> mark;
  const std::string text = ReadText(path);
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    const std::vector<std::string> words = absl::StrSplit(line, ' ');
    int64_t first = 0, second = 0;
    if (words.size() < 2 || !absl::SimpleAtoi(words[0], &first) || !absl::SimpleAtoi(words[1], &second)) continue;
    if (words.size() == 2) mark = AgeMark{absl::FromUnixMillis(first), absl::FromUnixMillis(second)};
    if (words.size() != 4) continue;
    (*seen)[words[2]][words[3]] = {.changed = absl::FromUnixNanos(second), .since = absl::FromUnixMillis(first)};
  }
  return mark;
}

void AttemptRetention::Save() {
  absl::MutexLock saving(&saving_);
  std::string text;
  {
    absl::MutexLock lock(&mutex_);
    const AgeMark mark = ages_.Mark();
    if (!changed_ && mark.age < next_save_) return;
    changed_ = false;
    next_save_ = mark.age + kBetweenSaves;
    text = absl::StrCat(absl::ToUnixMillis(mark.age), " ", absl::ToUnixMillis(mark.wall), "\n");
    for (const auto& [record, folders] : seen_) {
      for (const auto& [folder, seen] : folders) {
        absl::StrAppend(&text, absl::ToUnixMillis(seen.since), " ", absl::ToUnixNanos(seen.changed), " ", record, " ",
                        folder, "\n");
      }
    }
  }
  const absl::Status written = WriteFileAtomically(AgesPath(options_.folder), text);
  if (written.ok()) return;
  LogWarning(absl::StrCat("folders of ended attempts may stay longer: ", std::string(written.message())));
  absl::MutexLock lock(&mutex_);
  changed_ = true;
}

absl::Status AttemptRetention::Began(const AttemptFolders& job) {
  if (mkdir(options_.folder.c_str(), 0700) != 0 && errno != EEXIST) return ErrnoStatus(errno, options_.folder);
  if (job.job_id.find('/') != std::string::npos) return absl::InvalidArgumentError("a job's id has no '/'");
  ++unswept_;
  {
    absl::MutexLock lock(&mutex_);
    began_[NameOf(job)] = ages_.Now();  // from here on no thread drops the record
  }
  return WriteFileAtomically(absl::StrCat(options_.folder, "/", NameOf(job)), RecordOf(job));
}

std::map<std::string, std::vector<AttemptRetention::Record>> AttemptRetention::List() {
  unswept_ = 0;
  const MountPoints mounts = MountPoints::Read();
  std::map<std::string, std::vector<Record>> records;
  std::set<std::string> names;
  bool whole = false;  // else no job has been here yet, or the folder cannot be read
  for (const std::string& name : NamesIn(options_.folder, &whole)) {
    if (IsUnfinished(name)) continue;  // its record is being written
    names.insert(name);
    Record record{name, ReadRecord(absl::StrCat(options_.folder, "/", name))};
    const std::string place =
        record.job.has_value() ? absl::StrCat(options_.output_root, "/", record.job->output_dir) : "";
    records[place.empty() ? "" : mounts.Of(place)].push_back(std::move(record));
  }
  if (!whole) return records;
  absl::MutexLock lock(&mutex_);
  for (auto it = seen_.begin(); it != seen_.end();) it = names.count(it->first) > 0 ? std::next(it) : seen_.erase(it);
  return records;
}

int AttemptRetention::Sweep(const std::vector<Record>& records, const MountCalls::Enter& enter) {
  int left = 0;
  for (size_t i = 0; i < records.size(); ++i) {
    const Record& record = records[i];
    if (enter && record.job.has_value()) {
      const absl::Status entered = enter(absl::StrCat(options_.output_root, "/", record.job->output_dir));
      if (!entered.ok()) {
        LogWarning(absl::StrCat("folders of ended attempts stay: ", std::string(entered.message())));
        left += static_cast<int>(records.size() - i);
        break;
      }
    }
    if (!Take(record.name)) {
      ++left;
      continue;
    }
    left += SweepOne(record) ? 1 : 0;
    absl::MutexLock lock(&mutex_);
    taken_.erase(record.name);
  }
  Save();
  return left;
}

bool AttemptRetention::Take(const std::string& record) {
  absl::MutexLock lock(&mutex_);
  return taken_.insert(record).second;
}

absl::Duration AttemptRetention::AgeOf(const std::string& record, const std::string& folder, absl::Time changed) {
  const absl::Time now = ages_.Now();
  absl::MutexLock lock(&mutex_);
  const auto [seen, is_new] = seen_[record].try_emplace(folder, Seen{changed, now});
  if (!is_new && seen->second.changed != changed) seen->second = {changed, now};
  changed_ = changed_ || seen->second.since == now;
  return now - seen->second.since;
}

bool AttemptRetention::Drop(const std::string& record) {
  absl::MutexLock lock(&mutex_);
  // A job whose ranks have just been asked for makes its folder only now.
  const auto began = began_.find(record);
  if (began != began_.end() && ages_.Now() - began->second < kUntilItBegins) return false;
  if (began != began_.end()) began_.erase(began);
  changed_ = seen_.erase(record) > 0 || changed_;
  unlink(absl::StrCat(options_.folder, "/", record).c_str());
  return true;
}

bool AttemptRetention::SweepOne(const Record& record) {
  if (!record.job.has_value()) {  // it may be one that is being written
    return AgeOf(record.name, "", absl::UnixEpoch()) < kUntilItBegins || !Drop(record.name);
  }
  const absl::Duration keep = std::max(options_.keep, kUntilItWrites);
  std::set<std::string> folders;
  const absl::StatusOr<int> left =
      RemoveAttemptFolders(options_.output_root, *record.job, [&](const std::string& name, absl::Time changed) {
        folders.insert(name);
        return AgeOf(record.name, name, changed) >= keep;
      });
  if (!left.ok()) {
    LogWarning(absl::StrCat("folders of ended attempts of ", record.job->job_id,
                            " stay: ", std::string(left.status().message())));
    return true;
  }
  if (*left == 0) return !Drop(record.name);
  absl::MutexLock lock(&mutex_);
  std::map<std::string, Seen>& seen = seen_[record.name];
  for (auto it = seen.begin(); it != seen.end();) it = folders.count(it->first) > 0 ? std::next(it) : seen.erase(it);
  return true;
}

}  // namespace adjoin
