#include "coordinator/logs/log_store.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <optional>
#include <system_error>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"
#include "base/utf8.h"

namespace adjoin {
namespace {

constexpr int64_t kChunkBytes = 256 << 10;
constexpr char kCut[] = " [cut]";

absl::Status FileError(const std::string& path, const std::string& what) {
  return absl::UnavailableError(absl::StrCat(path, ": ", what, ": ", strerror(errno)));
}

void AppendLine(const LogLine& line, std::string* text) {
  absl::StrAppend(text, line.unix_ms(), " ", line.rank(), "@", line.epoch(), " ");
  if (line.text().size() <= LogStore::kMaxLineBytes) {
    absl::StrAppend(text, absl::StrReplaceAll(line.text(), {{"\n", " "}}), "\n");
  } else {
    const absl::string_view whole = line.text();
    const absl::string_view kept = whole.substr(0, Utf8Prefix(whole, LogStore::kMaxLineBytes));
    absl::StrAppend(text, absl::StrReplaceAll(kept, {{"\n", " "}}), kCut, "\n");
  }
}

// Nothing where it is no line that AppendLine wrote. Lines of releases that kept no epoch have epoch 0.
std::optional<LogLine> ParseLine(absl::string_view text) {
  std::pair<absl::string_view, absl::string_view> time = absl::StrSplit(text, absl::MaxSplits(' ', 1));
  std::pair<absl::string_view, absl::string_view> origin = absl::StrSplit(time.second, absl::MaxSplits(' ', 1));
  std::pair<absl::string_view, absl::string_view> rank = absl::StrSplit(origin.first, absl::MaxSplits('@', 1));
  int64_t unix_ms = 0;
  uint32_t number = 0;
  uint64_t epoch = 0;
  if (!absl::SimpleAtoi(time.first, &unix_ms) || !absl::SimpleAtoi(rank.first, &number)) return std::nullopt;
  if (!rank.second.empty() && !absl::SimpleAtoi(rank.second, &epoch)) return std::nullopt;
  LogLine line;
  line.set_unix_ms(unix_ms);
  line.set_rank(number);
  line.set_epoch(epoch);
  line.set_text(std::string(origin.second));
  return line;
}

void AddLines(absl::string_view text, std::vector<LogLine>& lines) {
  for (absl::string_view line : absl::StrSplit(text, '\n', absl::SkipEmpty())) {
    if (std::optional<LogLine> parsed = ParseLine(line)) lines.push_back(*std::move(parsed));
  }
}

// The length of the file's whole lines; what follows them is cut off.
absl::StatusOr<int64_t> CutTornLine(const std::string& path, int64_t size) {
  std::string tail(static_cast<size_t>(std::min(size, kChunkBytes)), '\0');  // every line is far shorter
  std::ifstream file(path, std::ios::binary);
  file.seekg(size - static_cast<int64_t>(tail.size()));
  file.read(tail.data(), static_cast<std::streamsize>(tail.size()));
  if (!file) return FileError(path, "cannot be read");
  const size_t last = tail.rfind('\n');
  const int64_t torn = static_cast<int64_t>(last == std::string::npos ? tail.size() : tail.size() - last - 1);
  if (torn > 0 && truncate(path.c_str(), size - torn) != 0) return FileError(path, "cannot be cut");
  return size - torn;
}

// All of `text` at `offset`, or nothing: a part of it would shift the positions of all that follows.
absl::Status WriteAt(const std::string& path, int64_t offset, absl::string_view text) {
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0) return FileError(path, "cannot be written");
  absl::Cleanup close_file = [fd] { close(fd); };
  for (int64_t at = offset; !text.empty();) {
    const ssize_t written = pwrite(fd, text.data(), text.size(), at);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) {
      absl::Status error = FileError(path, "cannot be written");
      [[maybe_unused]] int cut = ftruncate(fd, offset);
      return error;
    }
    at += written;
    text.remove_prefix(static_cast<size_t>(written));
  }
  return absl::OkStatus();
}

}  // namespace

std::string LogStore::FolderOf(const std::string& job_id) const { return absl::StrCat(folder_, "/", job_id); }

std::string LogStore::PathOf(const std::string& job_id, const Segment& segment) const {
  return absl::StrCat(FolderOf(job_id), "/log-", segment.begin);
}

absl::Status LogStore::MakeFolder(const std::string& job_id) const {
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

absl::StatusOr<std::deque<LogStore::Segment>> LogStore::FindSegments(const std::string& job_id) const {
  std::map<int64_t, int64_t> sizes;  // by begin
  std::error_code none;              // a range-based loop would throw
  std::filesystem::directory_iterator entries(FolderOf(job_id), none);
  for (; !none && entries != std::filesystem::directory_iterator(); entries.increment(none)) {
    const std::filesystem::directory_entry& entry = *entries;
    const std::string name = entry.path().filename().string();
    absl::string_view number = name;
    int64_t begin = 0;
    std::error_code error;
    if (!absl::ConsumePrefix(&number, "log-") || !absl::SimpleAtoi(number, &begin)) continue;
    const auto size = static_cast<int64_t>(entry.file_size(error));
    if (!error) sizes[begin] = size;
  }
  std::deque<Segment> segments;
  for (auto [begin, size] : sizes) {
    Segment segment{begin, begin};
    ADJOIN_ASSIGN_OR_RETURN(size, CutTornLine(PathOf(job_id, segment), size));
    segment.end += size;
    segments.push_back(segment);
  }
  return segments;
}

absl::StatusOr<std::deque<LogStore::Segment>*> LogStore::SegmentsOf(const std::string& job_id) {
  auto found = jobs_.find(job_id);
  if (found == jobs_.end()) {
    ADJOIN_ASSIGN_OR_RETURN(std::deque<Segment> segments, FindSegments(job_id));
    found = jobs_.emplace(job_id, std::move(segments)).first;
  }
  return &found->second;
}

absl::Status LogStore::Append(const std::string& job_id, const std::vector<LogLine>& lines) {
  if (lines.empty()) return absl::OkStatus();
  std::string text;
  for (const LogLine& line : lines) AppendLine(line, &text);

  absl::MutexLock lock(&mutex_);
  ADJOIN_ASSIGN_OR_RETURN(std::deque<Segment> * segments, SegmentsOf(job_id));
  if (segments->empty()) {
    ADJOIN_RETURN_IF_ERROR(MakeFolder(job_id));
    segments->push_back({});
  }
  if (segments->back().end - segments->back().begin >= segment_bytes_) {
    segments->push_back({segments->back().end, segments->back().end});
  }
  while (segments->size() > 2) {
    unlink(PathOf(job_id, segments->front()).c_str());
    segments->pop_front();
  }
  Segment& last = segments->back();
  ADJOIN_RETURN_IF_ERROR(WriteAt(PathOf(job_id, last), last.end - last.begin, text));
  last.end += static_cast<int64_t>(text.size());
  return absl::OkStatus();
}

absl::StatusOr<std::string> LogStore::TextOf(const std::string& job_id, const Segment& segment, int64_t from,
                                             int64_t end) const {
  const std::string path = PathOf(job_id, segment);
  std::ifstream file(path, std::ios::binary);
  file.seekg(from - segment.begin);
  std::string text(static_cast<size_t>(end - from), '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (!file) return FileError(path, "cannot be read");
  return text;
}

absl::StatusOr<LogStore::Chunk> LogStore::Read(const std::string& job_id, int64_t position) {
  Chunk chunk;
  chunk.next = position;
  absl::MutexLock lock(&mutex_);
  ADJOIN_ASSIGN_OR_RETURN(std::deque<Segment> * segments, SegmentsOf(job_id));
  if (!segments->empty() && position > segments->back().end) chunk.next = segments->back().end;
  for (const Segment& segment : *segments) {
    if (position >= segment.end) continue;
    const int64_t from = std::max(position, segment.begin);
    ADJOIN_ASSIGN_OR_RETURN(std::string text, TextOf(job_id, segment, from, std::min(from + kChunkBytes, segment.end)));
    const size_t whole = text.rfind('\n');  // every line is far shorter than a chunk
    text.resize(whole == std::string::npos ? 0 : whole + 1);
    chunk.begin = from;
    chunk.next = from + static_cast<int64_t>(text.size());
    AddLines(text, chunk.lines);
    return chunk;
  }
  chunk.begin = chunk.next;
  return chunk;
}

absl::StatusOr<LogStore::Chunk> LogStore::ReadBefore(const std::string& job_id, int64_t end) {
  Chunk chunk;
  absl::MutexLock lock(&mutex_);
  ADJOIN_ASSIGN_OR_RETURN(std::deque<Segment> * segments, SegmentsOf(job_id));
  const int64_t last = segments->empty() ? 0 : segments->back().end;
  chunk.begin = chunk.next = std::min(end, last);
  for (auto segment = segments->rbegin(); segment != segments->rend(); ++segment) {
    if (chunk.next <= segment->begin) continue;
    const int64_t from = std::max(segment->begin, chunk.next - kChunkBytes);
    ADJOIN_ASSIGN_OR_RETURN(std::string text, TextOf(job_id, *segment, from, chunk.next));
    // The first line is whole where it is the segment's first.
    const size_t whole = from == segment->begin ? 0 : text.find('\n') + 1;
    chunk.begin = from + static_cast<int64_t>(whole);
    AddLines(absl::string_view(text).substr(whole), chunk.lines);
    return chunk;
  }
  return chunk;
}

}  // namespace adjoin
