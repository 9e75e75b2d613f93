// The lines that ranks wrote, per job, in files of bounded size: the oldest lines go first.
//
//   LogStore store("/var/lib/adjoin/jobs", /*max_bytes_per_job=*/16 << 20);
//   ADJOIN_RETURN_IF_ERROR(store.Append("job-17", lines));
//   ADJOIN_ASSIGN_OR_RETURN(LogStore::Chunk chunk, store.Read("job-17", 0));
//   ... store.Read("job-17", chunk.next) ...
//
// A job's lines lie in its folder in one or two files, log-<position of the first byte>, so a position means the same
// line to every coordinator that ever opens the folder. A line is "<unix ms> <rank>@<epoch> <text>". What a coordinator
// that died left of a line that it was writing is cut off. Any thread.
#ifndef ADJOIN_COORDINATOR_LOGS_LOG_STORE_H_
#define ADJOIN_COORDINATOR_LOGS_LOG_STORE_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "proto/coordinator.pb.h"

namespace adjoin {

class LogStore {
 public:
  // Longer lines are cut; what is left ends in " [cut]".
  static constexpr size_t kMaxLineBytes = 32 << 10;

  // `folder` exists; it gets a folder per job. What is there already is found again.
  LogStore(std::string folder, int64_t max_bytes_per_job)
      : folder_(std::move(folder)), segment_bytes_(max_bytes_per_job / 2) {}

  // Makes the job's folder; Append does, where it is missing. Errors: kUnavailable.
  absl::Status Add(const std::string& job_id);
  // Each line with its epoch. A line end within a text becomes a space. Either all lines are kept or none.
  // Errors: kUnavailable (the file cannot be written; says why).
  absl::Status Append(const std::string& job_id, const std::vector<LogLine>& lines);

  struct Chunk {
    std::vector<LogLine> lines;
    int64_t next = 0;  // where to go on; equal to the position asked for when there is nothing more yet
  };
  // At most about 256 KiB from `position` on (0: the oldest line kept). A job without lines has an empty chunk. A
  // position after the last line, which is from before a loss of power, means the end.
  // Errors: kUnavailable.
  absl::StatusOr<Chunk> Read(const std::string& job_id, int64_t position);
  // Forgets the job and its lines. Errors: kUnavailable.
  absl::Status Remove(const std::string& job_id);

 private:
  struct Segment {
    int64_t begin = 0;
    int64_t end = 0;
  };
  std::string FolderOf(const std::string& job_id) const;
  std::string PathOf(const std::string& job_id, const Segment& segment) const;
  // Those in memory, or those that an earlier coordinator left.
  absl::StatusOr<std::deque<Segment>*> SegmentsOf(const std::string& job_id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<std::deque<Segment>> FindSegments(const std::string& job_id) const;

  const std::string folder_;
  const int64_t segment_bytes_;
  absl::Mutex mutex_;
  std::map<std::string, std::deque<Segment>> jobs_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace adjoin

#endif  // ADJOIN_COORDINATOR_LOGS_LOG_STORE_H_
