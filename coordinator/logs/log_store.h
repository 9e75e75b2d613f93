// The lines that ranks wrote, per job, in files of bounded size: the oldest lines go first.
//
//   LogStore store("/var/lib/adjoin/jobs", /*max_bytes_per_job=*/16 << 20);
//   ADJOIN_RETURN_IF_ERROR(store.Append("job-17", lines));
//   ADJOIN_ASSIGN_OR_RETURN(LogStore::Chunk chunk, store.Read("job-17", 0));
//   ... store.Read("job-17", chunk.next) ...
//
// A job's lines are in its folder, in one or two files named log-<position of the first byte>, so a position means
// the same line to every coordinator that opens the folder. A line is "<unix ms> <rank>@<epoch> <text>". A line that
// a coordinator did not finish when it died is cut off. Any thread.
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
  // Longer lines are cut, and then end in " [cut]".
  static constexpr size_t kMaxLineBytes = 32 << 10;

  // `folder` exists; it gets a folder per job. The lines of an earlier coordinator are found again.
  LogStore(std::string folder, int64_t max_bytes_per_job)
      : folder_(std::move(folder)), segment_bytes_(max_bytes_per_job / 2) {}

  // Appends the lines with their epochs: all of them or none. Makes the job's folder where it is missing. A line end
  // within a text becomes a space.
  // Errors: kUnavailable (the file cannot be written; with the reason).
  absl::Status Append(const std::string& job_id, const std::vector<LogLine>& lines);

  struct Chunk {
    std::vector<LogLine> lines;
    int64_t begin = 0;  // the position of the first line
    int64_t next = 0;   // the position to go on from; equal to the one asked for when there are no more lines yet
  };
  // Returns at most about 256 KiB from `position` on (0: the oldest line kept). A job without lines has an empty
  // chunk. A position after the last line, which can be there from before a loss of power, means the end.
  // Errors: kUnavailable.
  absl::StatusOr<Chunk> Read(const std::string& job_id, int64_t position);
  // Returns the lines that end at `end`, at most about 256 KiB of them, with the position of the first one in `begin`:
  // `end` where there are none before it. An `end` after the last line, as INT64_MAX, means the end; `next` is where
  // the lines end. Errors: kUnavailable.
  absl::StatusOr<Chunk> ReadBefore(const std::string& job_id, int64_t end);
  // Forgets the job and its lines. Errors: kUnavailable.
  absl::Status Remove(const std::string& job_id);

 private:
  struct Segment {
    int64_t begin = 0;
    int64_t end = 0;
  };
  std::string FolderOf(const std::string& job_id) const;
  std::string PathOf(const std::string& job_id, const Segment& segment) const;
  absl::Status MakeFolder(const std::string& job_id) const;
  // Returns bytes `from` to `end` of the job's log, all of one segment.
  absl::StatusOr<std::string> TextOf(const std::string& job_id, const Segment& segment, int64_t from,
                                     int64_t end) const;
  // Returns the job's segments: those in memory, or those that an earlier coordinator left.
  absl::StatusOr<std::deque<Segment>*> SegmentsOf(const std::string& job_id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<std::deque<Segment>> FindSegments(const std::string& job_id) const;

  const std::string folder_;
  const int64_t segment_bytes_;
  absl::Mutex mutex_;
  std::map<std::string, std::deque<Segment>> jobs_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace adjoin

#endif  // ADJOIN_COORDINATOR_LOGS_LOG_STORE_H_
