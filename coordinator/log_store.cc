#include "coordinator/log_store.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <system_error>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/status_macros.h"

namespace adjoin {
namespace {

constexpr int64_t kChunkBytes = 256 << 10;

absl::Status FileError(const std::string& path, const std::string& what) {
  return absl::UnavailableError(absl::StrCat(path, ": ", what, ": ", strerror(errno)));
}

// "<milliseconds> <rank> <text>", as Append writes it.
LogLine ParseLine(absl::string_view text) {
  LogLine line;
  std::pair<absl::string_view, absl::string_view> time = absl::StrSplit(text, absl::MaxSplits(' ', 1));
  std::pair<absl::string_view, absl::string_view> rank = absl::StrSplit(time.second, absl::MaxSplits(' ', 1));
  int64_t unix_ms = 0;
  uint32_t number = 0;
  if (absl::SimpleAtoi(time.first, &unix_ms) && absl::SimpleAtoi(rank.first, &number)) {
    line.set_unix_ms(unix_ms);
    line.set_rank(number);
    line.set_text(std::string(rank.second));
  }
  return line;
}

}  // namespace

std::string LogStore::FolderOf(const std::string& job_id) const { return absl::StrCat(folder_, "/", job_id); }

std::string LogStore::PathOf(const std::string& job_id, const Segment& segment) const {
  return absl::StrCat(FolderOf(job_id), "/log-", segment.begin);
}

absl::Status LogStore::Add(const std::string& job_id) {
  std::string folder = FolderOf(job_id);
  if (mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) return FileError(folder, "cannot be made");
  return absl::OkStatus();
}

absl::Status LogStore::Remove(const std::string& job_id) {
  absl::MutexLock lock(&mutex_);
  jobs_.erase(job_id);
  std::error_code error;
  std::filesystem::remove_all(FolderOf(job_id), error);
  if (error) return absl::UnavailableError(absl::StrCat(FolderOf(job_id), " cannot be removed: ", error.message()));
  return absl::OkStatus();
}

absl::Status LogStore::Append(const std::string& job_id, const std::vector<LogLine>& lines) {
  if (lines.empty()) return absl::OkStatus();
  std::string text;
  for (const LogLine& line : lines) absl::StrAppend(&text, line.unix_ms(), " ", line.rank(), " ", line.text(), "\n");

  absl::MutexLock lock(&mutex_);
  std::deque<Segment>& segments = jobs_[job_id];
  if (segments.empty()) {
    ADJOIN_RETURN_IF_ERROR(Add(job_id));
    segments.push_back({});
  }
  if (segments.back().end - segments.back().begin >= segment_bytes_) {
    segments.push_back({segments.back().end, segments.back().end});
    if (segments.size() > 2) {
      unlink(PathOf(job_id, segments.front()).c_str());
      segments.pop_front();
    }
  }
  std::string path = PathOf(job_id, segments.back());
  std::ofstream file(path, std::ios::binary | std::ios::app);
  file << text;
  file.flush();
  if (!file) {
    absl::Status error = FileError(path, "cannot be written");
    file.close();
    // A part of the text would shift the positions of all that follows.
    [[maybe_unused]] int cut = truncate(path.c_str(), segments.back().end - segments.back().begin);
    return error;
  }
  segments.back().end += static_cast<int64_t>(text.size());
  return absl::OkStatus();
}

absl::StatusOr<LogStore::Chunk> LogStore::Read(const std::string& job_id, int64_t position) {
  Chunk chunk;
  chunk.next = position;
  absl::MutexLock lock(&mutex_);
  auto found = jobs_.find(job_id);
  if (found == jobs_.end()) return chunk;
  for (const Segment& segment : found->second) {
    if (position >= segment.end) continue;
    int64_t from = std::max(position, segment.begin);
    std::string path = PathOf(job_id, segment);
    std::ifstream file(path, std::ios::binary);
    file.seekg(from - segment.begin);
    std::string text(std::min(kChunkBytes, segment.end - from), '\0');
    file.read(text.data(), static_cast<std::streamsize>(text.size()));
    if (!file) return FileError(path, "cannot be read");
    size_t whole = text.rfind('\n');  // every line is far shorter than a chunk
    text.resize(whole == std::string::npos ? 0 : whole + 1);
    chunk.next = from + static_cast<int64_t>(text.size());
    for (absl::string_view line : absl::StrSplit(text, '\n', absl::SkipEmpty())) chunk.lines.push_back(ParseLine(line));
    return chunk;
  }
  return chunk;
}

}  // namespace adjoin
