// A daemon's end of a data check's process (data_check_child.h).
//
//   absl::StatusOr<std::unique_ptr<CheckerProcess>> process = CheckerProcess::Start(request);
//   CheckerProcess::Outcome outcome = (*process)->Check(probe_data, deadline, cancel_event);
//   if (outcome.end != CheckerProcess::End::kAnswered) std::move(**process).Kill(abandoned);
//
// One thread: the one that called Start, which has to live as long as the process.
#ifndef ADJOIN_WORKER_DAEMON_CHECKER_PROCESS_H_
#define ADJOIN_WORKER_DAEMON_CHECKER_PROCESS_H_

#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "base/deadline.h"
#include "proto/coordinator.pb.h"
#include "worker/daemon/abandoned_processes.h"
#include "worker/daemon/line_splitter.h"
#include "worker/daemon/process_spawner.h"

namespace adjoin {

class CheckerProcess {
 public:
  enum class End { kAnswered, kLate, kCancelled, kBroken };
  struct Outcome {
    End end = End::kBroken;
    ProbeResult result;  // kAnswered: as the process gave it
    std::string at;      // the file that it looked at last: "'a.gz' (data set 'train', field 'image')"; may be empty
    std::string path;    // where that is; empty: not known, or no file
    std::string why;     // kBroken: "exited with code 3", and its last words
  };

  // Errors: those of Spawn.
  static absl::StatusOr<std::unique_ptr<CheckerProcess>> Start(const SpawnRequest& request);

  // `cancel` is an event descriptor: the check is given up when it becomes readable. The process can check again after
  // kAnswered only.
  Outcome Check(const ProbeData& request, Deadline deadline, int cancel);

  // Ends the process. One that does not die within a moment becomes one of `abandoned`, with this mount point.
  void Kill(AbandonedProcesses& abandoned, const std::string& mount_point) &&;

 private:
  explicit CheckerProcess(ChildProcess child) : child_(std::move(child)) {}
  // Takes whole frames from the front of `in_`. False where they make no sense.
  bool TakeFrames(Outcome& outcome);
  void ReadErrors();
  std::string Epitaph();

  ChildProcess child_;
  std::string in_;
  LineSplitter errors_;
  std::string last_words_;
};

}  // namespace adjoin

#endif  // ADJOIN_WORKER_DAEMON_CHECKER_PROCESS_H_
