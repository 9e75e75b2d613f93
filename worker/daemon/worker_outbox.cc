#include "worker/daemon/worker_outbox.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace adjoin {
namespace {

constexpr int kMaxLinesPerMessage = 1000;
// Jobs whose lost lines are still to be told; of those beyond it, none is.
constexpr size_t kMaxLosses = 1000;

}  // namespace

// Merges a rank's news into what waits of it. Returns false where nothing does.
bool WorkerOutbox::AddUpdate(WorkerMessage& message) {
  const RankUpdate& update = message.rank_update();
  const auto waiting = updates_.find({update.job_id(), message.header().epoch(), update.rank()});
  if (waiting == updates_.end()) return false;
  RankUpdate& merged = *waiting->second->mutable_rank_update();
  report_bytes_ -= waiting->second->ByteSizeLong();
  if (update.has_progress()) *merged.mutable_progress() = update.progress();
  if (!update.transport().empty()) merged.set_transport(update.transport());
  report_bytes_ += waiting->second->ByteSizeLong();
  return true;
}

void WorkerOutbox::AddLog(WorkerMessage message) {
  const size_t bytes = message.ByteSizeLong();
  WorkerMessage* last = messages_.empty() ? nullptr : &messages_.back();
  log_bytes_ += bytes;
  if (last != nullptr && last->has_log() && last->header().epoch() == message.header().epoch() &&
      last->log().job_id() == message.log().job_id() &&
      last->log().line_size() + message.log().line_size() <= kMaxLinesPerMessage &&
      last->ByteSizeLong() + bytes <= kMaxLogBatchBytes) {
    log_bytes_ -= last->ByteSizeLong() + bytes;
    last->mutable_log()->mutable_line()->MergeFrom(message.log().line());
    log_bytes_ += last->ByteSizeLong();
    return;
  }
  messages_.push_back(std::move(message));
  ++logs_;
  while (logs_ > limits_.log_messages || (log_bytes_ > limits_.bytes && logs_ > 1)) DropOldestLog();
}

void WorkerOutbox::DropOldestLog() {
  const auto oldest =
      std::find_if(messages_.begin(), messages_.end(), [](const WorkerMessage& m) { return m.has_log(); });
  const LogName name(oldest->log().job_id(), oldest->header().epoch());
  if (lost_lines_.size() < kMaxLosses || lost_lines_.count(name) > 0) {
    lost_lines_[name] += static_cast<uint64_t>(oldest->log().line_size());
  }
  log_bytes_ -= oldest->ByteSizeLong();
  --logs_;
  messages_.erase(oldest);
}

bool WorkerOutbox::Add(WorkerMessage message) {
  if (message.has_log()) {
    AddLog(std::move(message));
    return true;
  }
  if (message.has_rank_update() && AddUpdate(message)) return true;
  report_bytes_ += message.ByteSizeLong();
  messages_.push_back(std::move(message));
  WorkerMessage& kept = messages_.back();
  if (kept.has_rank_update()) {
    updates_[{kept.rank_update().job_id(), kept.header().epoch(), kept.rank_update().rank()}] = &kept;
  }
  if (report_bytes_ <= limits_.bytes) return true;
  KeepLogsOnly();
  return false;
}

std::optional<WorkerMessage> WorkerOutbox::Take() {
  if (messages_.empty()) return std::nullopt;
  WorkerMessage& first = messages_.front();
  const size_t bytes = first.ByteSizeLong();
  if (first.has_rank_update()) {
    updates_.erase({first.rank_update().job_id(), first.header().epoch(), first.rank_update().rank()});
  }
  WorkerMessage message = std::move(first);
  messages_.pop_front();
  if (!message.has_log()) {
    report_bytes_ -= bytes;
    return message;
  }
  --logs_;
  log_bytes_ -= bytes;
  const auto lost = lost_lines_.find({message.log().job_id(), message.header().epoch()});
  if (lost != lost_lines_.end() && message.log().line_size() > 0) {
    LogLine note = message.log().line(0);
    note.set_text(
        absl::StrCat("[here ", lost->second, " lines were lost, which the coordinator did not take in time]"));
    auto& lines = *message.mutable_log()->mutable_line();
    lines.Add(std::move(note));
    std::rotate(lines.begin(), lines.end() - 1, lines.end());
    lost_lines_.erase(lost);
  }
  return message;
}

void WorkerOutbox::Clear() {
  messages_.clear();
  updates_.clear();
  lost_lines_.clear();
  logs_ = log_bytes_ = report_bytes_ = 0;
}

void WorkerOutbox::KeepLogsOnly() {
  messages_.remove_if([](const WorkerMessage& m) { return !m.has_log(); });
  updates_.clear();
  report_bytes_ = 0;
}

}  // namespace adjoin
