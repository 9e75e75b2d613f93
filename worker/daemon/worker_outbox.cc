#include "worker/daemon/worker_outbox.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace adjoin {
namespace {

constexpr int kMaxLinesPerMessage = 1000;
// Jobs whose lost lines are still to be told; of those beyond it, none is.
constexpr size_t kMaxLosses = 1000;

}  // namespace

WorkerOutbox::RankName WorkerOutbox::NameOf(const WorkerMessage& message, const std::string& job, uint32_t rank) {
  return {job, message.header().epoch(), rank};
}

WorkerOutbox::Marks WorkerOutbox::MarksOf(const JobProgress& progress) {
  return {progress.phase(), progress.trace().SerializeAsString(), progress.checkpoint_step(), progress.resumed_step()};
}

void WorkerOutbox::AddUpdate(WorkerMessage message) {
  const RankName name = NameOf(message, message.rank_update().job_id(), message.rank_update().rank());
  if (message.rank_update().has_progress()) {
    const auto [known, is_first] = marks_.try_emplace(name);
    Marks marks = MarksOf(message.rank_update().progress());
    if (is_first || !(known->second == marks)) {
      known->second = std::move(marks);
      Release(name);
      report_bytes_ += message.ByteSizeLong();
      messages_.push_back(std::move(message));
      updates_[name] = &messages_.back();
      return;
    }
  }
  const auto in_turn = updates_.find(name);
  const auto [held, is_new] = in_turn == updates_.end() ? held_.try_emplace(name) : std::pair(held_.end(), false);
  if (is_new) {
    report_bytes_ += message.ByteSizeLong();
    held->second = std::move(message);
    return;
  }
  WorkerMessage& waiting = in_turn == updates_.end() ? held->second : *in_turn->second;
  const RankUpdate& update = message.rank_update();
  RankUpdate& merged = *waiting.mutable_rank_update();
  report_bytes_ -= waiting.ByteSizeLong();
  if (update.has_progress()) *merged.mutable_progress() = update.progress();
  if (!update.transport().empty()) merged.set_transport(update.transport());
  report_bytes_ += waiting.ByteSizeLong();
}

void WorkerOutbox::Release(const RankName& rank) {
  auto held = held_.extract(rank);
  if (held.empty()) return;
  messages_.push_back(std::move(held.mapped()));
  updates_[rank] = &messages_.back();
}

void WorkerOutbox::ReleaseAll() {
  while (!held_.empty()) Release(RankName(held_.begin()->first));
}

Deadline::Clock::time_point WorkerOutbox::DueAt() const {
  if (!messages_.empty()) return Deadline::Clock::time_point::min();
  if (held_.empty()) return Deadline::Clock::time_point::max();
  return released_ + absl::ToChronoNanoseconds(between_);
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
  if (message.has_rank_update()) {
    AddUpdate(std::move(message));
  } else {
    if (message.has_rank_ended()) {
      const RankName name = NameOf(message, message.rank_ended().job_id(), message.rank_ended().rank());
      Release(name);
      marks_.erase(name);
    }
    report_bytes_ += message.ByteSizeLong();
    messages_.push_back(std::move(message));
  }
  if (report_bytes_ <= limits_.bytes) return true;
  KeepLogsOnly();
  return false;
}

std::optional<WorkerMessage> WorkerOutbox::Take(Deadline::Clock::time_point now) {
  if (!held_.empty() && now >= released_ + absl::ToChronoNanoseconds(between_)) {
    ReleaseAll();
    released_ = now;
  }
  if (messages_.empty()) return std::nullopt;
  WorkerMessage& first = messages_.front();
  const size_t bytes = first.ByteSizeLong();
  if (first.has_rank_update()) {
    const auto in_turn = updates_.find(NameOf(first, first.rank_update().job_id(), first.rank_update().rank()));
    if (in_turn != updates_.end() && in_turn->second == &first)
      updates_.erase(in_turn);  // a later one of the rank waits
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
  held_.clear();
  marks_.clear();
  lost_lines_.clear();
  logs_ = log_bytes_ = report_bytes_ = 0;
}

void WorkerOutbox::KeepLogsOnly() {
  messages_.remove_if([](const WorkerMessage& m) { return !m.has_log(); });
  updates_.clear();
  held_.clear();
  marks_.clear();
  report_bytes_ = 0;
}

}  // namespace adjoin
