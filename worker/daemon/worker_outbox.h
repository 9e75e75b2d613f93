// What a daemon has to tell the coordinator and has not written yet, within limits.
//
//   outbox.Add(message);                         // false: too much waits; the stream is to begin anew
//   while (auto message = outbox.Take(Deadline::Clock::now())) stream.Write(*message);
//   WaitUntil(outbox.DueAt());                   // then there is more to take
//   outbox.KeepLogsOnly();                       // the stream ended; the next hello reports the rest
//
// A rank's progress replaces what waits of it, and goes out with that of the other ranks, as often as SetPace says: so
// it may go after messages that were added later. What tells more than further steps (another phase, a checkpoint, a
// trace) replaces nothing and does not wait, nor does the last progress of a rank that ends. Where too many log lines
// wait, the oldest go, and a line says how many were lost. Not thread-safe.
#ifndef ADJOIN_WORKER_DAEMON_WORKER_OUTBOX_H_
#define ADJOIN_WORKER_DAEMON_WORKER_OUTBOX_H_

#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include "absl/time/time.h"
#include "base/deadline.h"
#include "proto/coordinator.pb.h"
#include "proto/message_limits.h"

namespace adjoin {

class WorkerOutbox {
 public:
  struct Limits {
    size_t log_messages = 256;       // each of at most kMaxLogBatchBytes
    size_t bytes = kMaxOutboxBytes;  // of all log lines, and likewise of all else
  };

  explicit WorkerOutbox(Limits limits) : limits_(limits) {}

  // `message` is fit (proto/fit_message.h). Returns false, and drops all but the log lines, where what waits has more
  // than the limit: the coordinator does not read, and a hello has the state in fewer words.
  bool Add(WorkerMessage message);
  // How far apart progress goes out, from now on. 0, as at first: at once.
  void SetPace(absl::Duration between) { between_ = between; }
  // The next message that is due; nothing where none is.
  std::optional<WorkerMessage> Take(Deadline::Clock::time_point now);
  // When a message is due: at the beginning of time where one is already, at its end where nothing waits.
  Deadline::Clock::time_point DueAt() const;
  void KeepLogsOnly();
  // Drops everything: it was for another coordinator.
  void Clear();
  bool empty() const { return messages_.empty() && held_.empty(); }

 private:
  using RankName = std::tuple<std::string, uint64_t, uint32_t>;  // job, epoch, rank
  using LogName = std::pair<std::string, uint64_t>;              // job, epoch

  // What is told of a rank beside its steps.
  struct Marks {
    std::string phase, trace;
    uint64_t checkpoint_step = 0, resumed_step = 0;
    bool operator==(const Marks& other) const {
      return std::tie(phase, trace, checkpoint_step, resumed_step) ==
             std::tie(other.phase, other.trace, other.checkpoint_step, other.resumed_step);
    }
  };

  static RankName NameOf(const WorkerMessage& message, const std::string& job, uint32_t rank);
  static Marks MarksOf(const JobProgress& progress);
  void AddUpdate(WorkerMessage message);
  // What is held is due now: that of one rank; of all.
  void Release(const RankName& rank);
  void ReleaseAll();
  void AddLog(WorkerMessage message);
  void DropOldestLog();

  const Limits limits_;
  std::list<WorkerMessage> messages_;
  std::map<RankName, WorkerMessage*> updates_;  // those in messages_
  std::map<RankName, WorkerMessage> held_;      // updates that are not due
  std::map<RankName, Marks> marks_;             // the last of each rank that has not ended
  absl::Duration between_;
  Deadline::Clock::time_point released_ = Deadline::Clock::time_point::min();  // when all that was held became due
  size_t logs_ = 0, log_bytes_ = 0, report_bytes_ = 0;
  std::map<LogName, uint64_t> lost_lines_;  // not told yet
};

}  // namespace adjoin

#endif  // ADJOIN_WORKER_DAEMON_WORKER_OUTBOX_H_
