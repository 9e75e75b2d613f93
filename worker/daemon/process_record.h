// A file that names the processes a daemon has started, so that the next daemon with the same state folder can be sure
// that none of them is left.
//
//   ProcessRecord record("ranks");
//   ADJOIN_RETURN_IF_ERROR(record.KillLeftovers(Deadline::After(absl::Seconds(30))));
//   ADJOIN_RETURN_IF_ERROR(record.Add(pid));      // after each start
//   record.Remove(pid);                           // after it was reaped
//
// Ranks die with the thread that started them; but a process that waits in the kernel dies only when that wait ends.
// The file names each by its pid and start time, and also names the machine's boot, so that no other process with the
// same pid is killed. One thread at a time.
#ifndef ADJOIN_WORKER_DAEMON_PROCESS_RECORD_H_
#define ADJOIN_WORKER_DAEMON_PROCESS_RECORD_H_

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "base/deadline.h"

namespace adjoin {

class ProcessRecord {
 public:
  explicit ProcessRecord(std::string path) : path_(std::move(path)) {}

  // Kills all processes in the file, waits until they have ended, and empties the file. A missing file is an empty one.
  // Errors: kDeadlineExceeded (names a process that does not die), kUnavailable, kDataLoss (not such a file).
  absl::Status KillLeftovers(Deadline deadline);

  // Errors: kUnavailable (the file cannot be written), kNotFound (no such process).
  absl::Status Add(pid_t pid);
  void Remove(pid_t pid);

 private:
  absl::Status Write() const;

  const std::string path_;
  std::map<pid_t, uint64_t> start_times_;
};

}  // namespace adjoin

#endif  // ADJOIN_WORKER_DAEMON_PROCESS_RECORD_H_
