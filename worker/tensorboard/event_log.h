// TensorBoard's event file of an attempt: the scalars of metrics.jsonl, each line's as soon as the line is written.
//
//   ADJOIN_ASSIGN_OR_RETURN(auto events, EventLog::Create(absl::StrCat(folder, "/", kEventFile), SecondsNow));
//   ADJOIN_RETURN_IF_ERROR(events->Add("{\"type\": \"step\", \"step\": 1, \"loss\": 2.5}\n"));
//
// An attempt that goes on from a checkpoint has the lines that the checkpoint kept in a file of its own, and then its
// own: so no step is there twice, and nothing has to be purged. When these lines were first written is not known any
// more. Their times are put before the attempt's begin, as long ago as their steps took:
//
//   StepSeconds past;
//   past.Add(lines);
//   events->BeginPast(past.seconds());
//   ADJOIN_RETURN_IF_ERROR(events->Add(lines));
//   events->EndPast();
//
// Whole records, as in metrics.jsonl: see GrowingFile. One thread.
#ifndef ADJOIN_WORKER_TENSORBOARD_EVENT_LOG_H_
#define ADJOIN_WORKER_TENSORBOARD_EVENT_LOG_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "worker/tensorboard/scalar_events.h"
#include "worker/training/growing_file.h"

namespace adjoin {

// The same for every attempt: results that take the place of earlier ones replace their event file, too. TensorBoard
// reads every file with ".tfevents." in its name.
inline constexpr char kEventFile[] = "events.out.tfevents.adjoin";

// Cuts text that comes in parts into lines.
class LineCutter {
 public:
  // Calls `on_line` with each line that is whole now, without its end.
  void Add(absl::string_view text, const std::function<void(const std::string&)>& on_line);

 private:
  std::string begun_;
};

// How long the steps of lines took, together.
class StepSeconds {
 public:
  void Add(absl::string_view lines);
  double seconds() const { return seconds_; }

 private:
  LineCutter cutter_;
  double seconds_ = 0;
};

class EventLog {
 public:
  // `now`: seconds since 1970. Errors of all methods: as GrowingFile.
  static absl::StatusOr<std::unique_ptr<EventLog>> Create(const std::string& path, std::function<double()> now);

  // Lines of metrics.jsonl, in parts of any size.
  absl::Status Add(absl::string_view lines);
  // What is added until EndPast happened before: its first step began so many seconds ago.
  void BeginPast(double seconds);
  void EndPast() { past_.reset(); }
  absl::Status RestoreAt(const std::string& path) { return file_->RestoreAt(path); }
  absl::Status Sync() { return file_->Sync(); }

 private:
  EventLog(std::unique_ptr<GrowingFile> file, std::function<double()> now)
      : file_(std::move(file)), now_(std::move(now)) {}
  absl::Status Write(tensorboard::Event event);
  double WallTime(const std::string& line);

  const std::unique_ptr<GrowingFile> file_;
  const std::function<double()> now_;
  std::optional<double> past_;  // the time of the next line
  LineCutter cutter_;
  ScalarEvents scalars_;
};

}  // namespace adjoin

#endif  // ADJOIN_WORKER_TENSORBOARD_EVENT_LOG_H_
