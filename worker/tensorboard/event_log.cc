#include "worker/tensorboard/event_log.h"

#include "worker/tensorboard/event_record.h"

namespace adjoin {
namespace {

constexpr char kFileVersion[] = "brain.Event:2";

}  // namespace

void LineCutter::Add(absl::string_view text, const std::function<void(const std::string&)>& on_line) {
  for (size_t end = text.find('\n'); end != absl::string_view::npos; end = text.find('\n')) {
    begun_.append(text.data(), end);
    text.remove_prefix(end + 1);
    on_line(begun_);
    begun_.clear();
  }
  begun_.append(text.data(), text.size());
}

void StepSeconds::Add(absl::string_view lines) {
  cutter_.Add(lines, [this](const std::string& line) { seconds_ += ScalarEvents::SecondsOf(line); });
}

absl::StatusOr<std::unique_ptr<EventLog>> EventLog::Create(const std::string& path, std::function<double()> now) {
  absl::StatusOr<std::unique_ptr<GrowingFile>> file = GrowingFile::Create(path);
  if (!file.ok()) return file.status();
  std::unique_ptr<EventLog> log(new EventLog(*std::move(file), std::move(now)));
  tensorboard::Event first;
  first.set_wall_time(log->now_());
  first.set_file_version(kFileVersion);
  const absl::Status written = log->Write(std::move(first));
  if (!written.ok()) return written;
  return log;
}

absl::Status EventLog::Write(tensorboard::Event event) { return file_->Append(EventRecord(event.SerializeAsString())); }

void EventLog::BeginPast(double seconds) { past_ = now_() - seconds; }

// A step ends when its line is written.
double EventLog::WallTime(const std::string& line) {
  if (!past_.has_value()) return now_();
  *past_ += ScalarEvents::SecondsOf(line);
  return *past_;
}

absl::Status EventLog::Add(absl::string_view lines) {
  absl::Status status;
  cutter_.Add(lines, [&](const std::string& line) {
    tensorboard::Event event = scalars_.Of(line);
    event.set_wall_time(WallTime(line));
    if (event.has_summary() && status.ok()) status = Write(std::move(event));
  });
  return status;
}

}  // namespace adjoin
