#include "coordinator/logs/log_writer.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/logging.h"

namespace adjoin {
namespace {

// How long the thread waits for work before it looks again.
constexpr absl::Duration kIdle = absl::Seconds(60);
// What a line takes besides its text.
constexpr size_t kLineBytes = 64;

size_t SizeOf(const std::vector<LogLine>& lines) {
  size_t bytes = 0;
  for (const LogLine& line : lines) bytes += line.text().size() + kLineBytes;
  return bytes;
}

}  // namespace

LogWriter::LogWriter(Options options) : options_(std::move(options)), thread_([this] { WriteUntilStopped(); }) {}

LogWriter::~LogWriter() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  changed_.NotifyAll();
  thread_.join();
}

void LogWriter::Widen(Gaps& gaps, const std::string& job_id, uint64_t lines, const LogLine& last) {
  Gap& gap = gaps[job_id];
  gap.lines += lines;
  gap.last = last;
  gap.last.clear_text();
}

void LogWriter::Add(const std::string& job_id, std::vector<LogLine> lines) {
  if (lines.empty()) return;
  Item item{0, job_id, std::move(lines)};
  item.bytes = SizeOf(item.lines);
  {
    absl::MutexLock lock(&mutex_);
    item.sequence = ++last_added_;
    waiting_bytes_ += item.bytes;
    waiting_.push_back(std::move(item));
    while (waiting_bytes_ > options_.max_waiting_bytes && waiting_bytes_ > waiting_.back().bytes) DropOldest();
  }
  changed_.NotifyAll();
}

void LogWriter::DropOldest() {
  auto oldest = std::find_if(waiting_.begin(), waiting_.end(), [](const Item& item) { return !item.remove; });
  Widen(gaps_, oldest->job_id, oldest->lines.size(), oldest->lines.back());
  waiting_bytes_ -= oldest->bytes;
  waiting_.erase(oldest);
}

void LogWriter::Remove(const std::string& job_id) {
  {
    absl::MutexLock lock(&mutex_);
    auto gone =
        std::remove_if(waiting_.begin(), waiting_.end(), [&](const Item& item) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
          if (item.job_id == job_id) waiting_bytes_ -= item.bytes;
          return item.job_id == job_id;
        });
    waiting_.erase(gone, waiting_.end());
    gaps_.erase(job_id);
    Item item{++last_added_, job_id};
    item.remove = true;
    waiting_.push_back(std::move(item));
  }
  changed_.NotifyAll();
}

bool LogWriter::Flush(Deadline deadline) {
  absl::MutexLock lock(&mutex_);
  const uint64_t upto = last_added_;
  auto done = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return done_ >= upto; };
  return changed_.Wait(mutex_, deadline, done);
}

void LogWriter::Listen(std::function<void(const std::string&)> written) {
  absl::MutexLock lock(&listener_mutex_);
  written_ = std::move(written);
}

bool LogWriter::Append(const std::string& job_id, const std::vector<LogLine>& lines) {
  const absl::Status status = options_.append(job_id, lines);
  if (!status.ok() && !failing_) LogError(absl::StrCat("log lines are lost: ", std::string(status.message())));
  if (status.ok() && failing_) LogInfo("log lines can be written again");
  failing_ = !status.ok();
  return status.ok();
}

LogWriter::Gaps LogWriter::Write(const Gaps& gaps, const Item& item) {
  Gaps left;
  for (const auto& [job_id, gap] : gaps) {
    LogLine note = gap.last;
    note.set_text(absl::StrCat("[here ", gap.lines, " lines were lost, which the coordinator could not write]"));
    if (!Append(job_id, {note})) left[job_id] = gap;
  }
  if (item.remove) {
    if (absl::Status status = options_.remove(item.job_id); !status.ok()) LogError(std::string(status.message()));
    left.erase(item.job_id);
  } else if (!Append(item.job_id, item.lines)) {
    Widen(left, item.job_id, item.lines.size(), item.lines.back());
  }
  return left;
}

void LogWriter::WriteUntilStopped() {
  absl::MutexLock lock(&mutex_);
  auto work = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return stopping_ || !waiting_.empty(); };
  while (true) {
    if (!changed_.Wait(mutex_, Deadline::After(kIdle), work)) continue;
    if (waiting_.empty()) return;  // stopping, and all is written
    const Item item = std::move(waiting_.front());
    waiting_.pop_front();
    waiting_bytes_ -= item.bytes;
    // What was lost was older than all that waits.
    const Gaps gaps = std::exchange(gaps_, {});
    mutex_.Unlock();
    Gaps left = Write(gaps, item);
    {
      absl::MutexLock listening(&listener_mutex_);
      if (written_ != nullptr) {
        written_(item.job_id);
        for (const auto& [job_id, gap] : gaps) {
          if (job_id != item.job_id) written_(job_id);  // it has a line for the gap now
        }
      }
    }
    mutex_.Lock();
    const auto removed = [&](const std::string& job_id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      return std::any_of(waiting_.begin(), waiting_.end(),
                         [&](const Item& later) { return later.remove && later.job_id == job_id; });
    };
    for (auto& [job_id, gap] : left) {
      if (removed(job_id)) continue;
      const uint64_t lines = gap.lines;
      auto [known, is_new] = gaps_.try_emplace(job_id, std::move(gap));
      if (!is_new) known->second.lines += lines;
    }
    done_ = item.sequence;
    changed_.NotifyAll();
  }
}

}  // namespace adjoin
