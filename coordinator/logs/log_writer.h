// Writes the ranks' lines to the disk from a thread of its own, so that a disk that stalls keeps no daemon's
// heartbeat unread.
//
//   LogWriter writer({.append = [&](const auto& job, const auto& lines) { return logs.Append(job, lines); },
//                     .remove = [&](const auto& job) { return logs.Remove(job); }});
//   writer.Add("job-17", lines);                              // returns at once
//   if (writer.Flush(Deadline::After(absl::Seconds(10)))) ... // Read finds all that was added before
//
// The lines that wait are bounded. Where the disk is slower than the ranks, the oldest lines are lost, as are those
// that cannot be written; a line in their place has their number. The destructor writes the lines that wait. Any
// thread.
#ifndef ADJOIN_COORDINATOR_LOGS_LOG_WRITER_H_
#define ADJOIN_COORDINATOR_LOGS_LOG_WRITER_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "base/deadline.h"
#include "base/monotonic_condition.h"
#include "proto/coordinator.pb.h"

namespace adjoin {

class LogWriter {
 public:
  struct Options {
    // Called by the writer's thread alone. `append` writes all lines of a call or none.
    std::function<absl::Status(const std::string& job_id, const std::vector<LogLine>& lines)> append;
    std::function<absl::Status(const std::string& job_id)> remove;
    size_t max_waiting_bytes = 64 << 20;
  };
  explicit LogWriter(Options options);
  ~LogWriter();
  LogWriter(const LogWriter&) = delete;
  LogWriter& operator=(const LogWriter&) = delete;

  // Lines are written in the order of the calls.
  void Add(const std::string& job_id, std::vector<LogLine> lines);
  // Forgets the lines of the job that wait, and removes those that were written before.
  void Remove(const std::string& job_id);
  // Returns when all that was added or removed before is done, or lost; false at the deadline.
  bool Flush(Deadline deadline);

  // `written` is called by the writer's thread after every change that a reader of the job's log could see; null calls
  // nothing. When Listen has returned, no call of the function before is running.
  void Listen(std::function<void(const std::string& job_id)> written);

 private:
  struct Item {
    uint64_t sequence = 0;
    std::string job_id;
    std::vector<LogLine> lines = {};
    size_t bytes = 0;
    bool remove = false;
  };
  // Lines of one job that were lost in one place.
  struct Gap {
    uint64_t lines = 0;
    LogLine last;  // without its text
  };
  using Gaps = std::map<std::string, Gap>;  // by job
  static void Widen(Gaps& gaps, const std::string& job_id, uint64_t lines, const LogLine& last);

  void DropOldest() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void WriteUntilStopped();
  // Writes lines for the gaps before the item, then the item. Returns the gaps that could not be written.
  Gaps Write(const Gaps& gaps, const Item& item);
  bool Append(const std::string& job_id, const std::vector<LogLine>& lines);

  const Options options_;
  absl::Mutex mutex_;
  MonotonicCondition changed_;
  std::deque<Item> waiting_ ABSL_GUARDED_BY(mutex_);
  size_t waiting_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  Gaps gaps_ ABSL_GUARDED_BY(mutex_);
  uint64_t last_added_ ABSL_GUARDED_BY(mutex_) = 0;  // sequence
  uint64_t done_ ABSL_GUARDED_BY(mutex_) = 0;        // the sequence of the last item that was written or tried
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Mutex listener_mutex_;
  std::function<void(const std::string&)> written_ ABSL_GUARDED_BY(listener_mutex_);
  bool failing_ = false;  // the thread's own
  std::thread thread_;
};

}  // namespace adjoin

#endif  // ADJOIN_COORDINATOR_LOGS_LOG_WRITER_H_
