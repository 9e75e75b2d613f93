// Removes the folders of attempts that failed or were cancelled, some days after anything in them has changed: the next
// attempt of a job removes those before it, but a job that has ended has no next one.
//
//   auto retention = std::make_shared<AttemptRetention>(AttemptRetention::Options{.folder = "attempts",
//                                                                                 .output_root = "/srv/output",
//                                                                                 .keep = absl::Hours(168)});
//   retention->Began({.output_dir = "lenet5", .job_id = "job-12", .store_id = 77});     // before its ranks start
//   retention->Sweep();                                                                  // now and then
//
// A record of each job whose rank 0 ran here is in a folder of the daemon's own, so a daemon that starts later finds
// them again. The record goes when no folder of an attempt of the job is left. Any thread; waits for as long as the
// file systems do.
#ifndef ADJOIN_WORKER_DAEMON_ATTEMPT_RETENTION_H_
#define ADJOIN_WORKER_DAEMON_ATTEMPT_RETENTION_H_

#include <atomic>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "worker/daemon/folder_remover.h"

namespace adjoin {

class AttemptRetention {
 public:
  struct Options {
    std::string folder;  // of the records; made where it is missing
    std::string output_root;
    absl::Duration keep;
    std::function<absl::Time()> now = [] { return absl::Now(); };
  };
  explicit AttemptRetention(Options options) : options_(std::move(options)) {}

  // Errors: as ErrnoStatus. The folders of a job without a record stay until its next attempt, or `adjoin rm`.
  absl::Status Began(const AttemptFolders& job);

  // Removes what is old enough. Returns how many records are left. Does nothing while another thread does it.
  int Sweep();

  // Records made since the last Sweep.
  int unswept() const { return unswept_; }

 private:
  const Options options_;
  std::atomic<int> unswept_{0};
  std::atomic<bool> sweeping_{false};
};

}  // namespace adjoin

#endif  // ADJOIN_WORKER_DAEMON_ATTEMPT_RETENTION_H_
