// What a daemon has to tell the coordinator and has not written yet, within limits.
//
//   outbox.Add(message);                         // false: too much waits; the stream is to begin anew
//   while (auto message = outbox.Take()) stream.Write(*message);
//   outbox.KeepLogsOnly();                       // the stream ended; the next hello reports the rest
//
// A rank's progress replaces what waits of it. Where too many log lines wait, the oldest go, and a line says how many
// were lost. Not thread-safe.
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
  std::optional<WorkerMessage> Take();
  void KeepLogsOnly();
  // Drops everything: it was for another coordinator.
  void Clear();
  bool empty() const { return messages_.empty(); }

 private:
  using RankName = std::tuple<std::string, uint64_t, uint32_t>;  // job, epoch, rank
  using LogName = std::pair<std::string, uint64_t>;              // job, epoch

  bool AddUpdate(WorkerMessage& message);
  void AddLog(WorkerMessage message);
  void DropOldestLog();

  const Limits limits_;
  std::list<WorkerMessage> messages_;
  std::map<RankName, WorkerMessage*> updates_;  // those in messages_
  size_t logs_ = 0, log_bytes_ = 0, report_bytes_ = 0;
  std::map<LogName, uint64_t> lost_lines_;  // not told yet
};

}  // namespace adjoin

#endif  // ADJOIN_WORKER_DAEMON_WORKER_OUTBOX_H_
