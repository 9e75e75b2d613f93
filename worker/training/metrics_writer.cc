#include "worker/training/metrics_writer.h"

#include <cerrno>
#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

namespace adjoin {
namespace {

constexpr size_t kMostWaiting = size_t{64} << 20;

std::string Quoted(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string NumberText(double number) { return std::isfinite(number) ? absl::StrFormat("%.17g", number) : "null"; }

std::string ValueText(const MetricsWriter::Value& value) {
  if (const auto* whole = std::get_if<int64_t>(&value)) return absl::StrCat(*whole);
  if (const auto* text = std::get_if<std::string>(&value)) return Quoted(*text);
  if (const auto* list = std::get_if<std::vector<double>>(&value)) {
    return absl::StrCat("[", absl::StrJoin(*list, ", ", [](std::string* out, double x) { *out += NumberText(x); }),
                        "]");
  }
  if (const auto* texts = std::get_if<std::vector<std::string>>(&value)) {
    return absl::StrCat(
        "[", absl::StrJoin(*texts, ", ", [](std::string* out, const std::string& text) { *out += Quoted(text); }), "]");
  }
  if (const auto* rows = std::get_if<std::vector<std::vector<int64_t>>>(&value)) {
    return absl::StrCat("[",
                        absl::StrJoin(*rows, ", ",
                                      [](std::string* out, const std::vector<int64_t>& row) {
                                        absl::StrAppend(out, "[", absl::StrJoin(row, ", "), "]");
                                      }),
                        "]");
  }
  return NumberText(std::get<double>(value));
}

}  // namespace

absl::StatusOr<std::unique_ptr<MetricsWriter>> MetricsWriter::Create(const std::string& path) {
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0644);
  if (fd < 0) return absl::UnavailableError(absl::StrCat(path, ": ", std::strerror(errno)));
  std::unique_ptr<MetricsWriter> writer(new MetricsWriter(path, fd));
  // The lock goes with the process, however it ends. Where the file system has no locks, there is none to respect.
  if (flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    return absl::FailedPreconditionError(
        absl::StrCat(path, ": another job is writing it; right would be an output_dir of its own for each job"));
  }
  if (ftruncate(fd, 0) != 0) return absl::UnavailableError(absl::StrCat(path, ": ", std::strerror(errno)));
  return writer;
}

bool MetricsWriter::InUse(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (fd < 0) return false;
  const bool in_use = flock(fd, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  close(fd);
  return in_use;
}

MetricsWriter::~MetricsWriter() { close(fd_); }

absl::Status MetricsWriter::Write(const Line& line) {
  std::string text = "{";
  for (const auto& [name, value] : line) {
    absl::StrAppend(&text, text.size() > 1 ? ", " : "", Quoted(name), ": ", ValueText(value));
  }
  text += "}\n";
  return Append(text);
}

absl::Status MetricsWriter::Append(const std::string& lines) {
  size_ += static_cast<int64_t>(lines.size());
  waiting_ += lines;
  return Flush(/*all=*/waiting_.size() > kMostWaiting);
}

absl::Status MetricsWriter::Flush(bool all) {
  // One call a line: a kill between calls leaves no half line.
  size_t done = 0;
  int error = 0;
  while (done < waiting_.size() && error == 0) {
    const ssize_t written = write(fd_, waiting_.data() + done, waiting_.size() - done);
    if (written >= 0) done += static_cast<size_t>(written);
    if (written < 0 && errno != EINTR) error = errno;
  }
  waiting_.erase(0, done);
  const bool full = error == ENOSPC || error == EDQUOT;
  if (error == 0 || (full && !all)) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat(path_, ": ", std::strerror(error)));
}

absl::Status MetricsWriter::RestoreAt(const std::string& path) {
  struct stat mine = {}, there = {};
  if (fstat(fd_, &mine) == 0 && stat(path.c_str(), &there) == 0 && mine.st_dev == there.st_dev &&
      mine.st_ino == there.st_ino) {
    return absl::OkStatus();
  }
  absl::StatusOr<std::unique_ptr<MetricsWriter>> again = Create(path);
  if (!again.ok()) return again.status();
  std::ifstream lines(absl::StrCat("/proc/self/fd/", fd_), std::ios::binary);
  const absl::Status copied = (*again)->Append({std::istreambuf_iterator<char>(lines), {}});
  if (!copied.ok()) return copied;
  std::swap(fd_, (*again)->fd_);
  path_ = path;
  waiting_.insert(0, (*again)->waiting_);
  return absl::OkStatus();
}

absl::Status MetricsWriter::Sync() {
  const absl::Status flushed = Flush(/*all=*/true);
  if (!flushed.ok()) return flushed;
  if (fsync(fd_) != 0) return absl::UnavailableError(absl::StrCat(path_, ": ", std::strerror(errno)));
  return absl::OkStatus();
}

}  // namespace adjoin
