// Removes the folders of attempts that failed or were cancelled, some days after anything in them has changed: the next
// attempt of a job removes those before it, but a job that has ended has no next one.
//
//   auto retention = std::make_shared<AttemptRetention>(AttemptRetention::Options{.folder = "attempts",
//                                                                                 .output_root = "/srv/output",
//                                                                                 .keep = absl::Hours(168)});
//   retention->Began({.output_dir = "lenet5", .job_id = "job-12", .store_id = 77});     // before its ranks start
//   for (const auto& [mount_point, records] : retention->List()) retention->Sweep(records);          // now and then
//
// A record of each job whose rank 0 ran here is in a folder of the daemon's own, so a daemon that starts later finds
// them again. The record goes when no folder of an attempt of the job is left. A folder's age counts from the sweep
// that first saw it as it is, by an AgeClock (base/age_clock.h): neither this machine's wall clock nor a file server's
// removes it early. Ages are in a file beside the records, "attempts.ages". Any thread; waits for as long as the file
// systems do.
#ifndef ADJOIN_WORKER_DAEMON_ATTEMPT_RETENTION_H_
#define ADJOIN_WORKER_DAEMON_ATTEMPT_RETENTION_H_

#include <atomic>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/age_clock.h"
#include "base/deadline.h"
#include "worker/daemon/folder_remover.h"
#include "worker/daemon/mount_calls.h"

namespace adjoin {

class AttemptRetention {
 public:
  struct Options {
    std::string folder;  // of the records; made where it is missing
    std::string output_root;
    absl::Duration keep;
    std::function<absl::Time()> wall = [] { return absl::Now(); };
    std::function<absl::Duration()> steady = [] { return absl::FromChrono(Deadline::Clock::now().time_since_epoch()); };
  };
  // Reads the ages that an earlier daemon has left, and removes what it has not finished writing. There is no other
  // daemon with this folder.
  explicit AttemptRetention(Options options);

  // Errors: as ErrnoStatus. The folders of a job without a record stay until its next attempt, or `adjoin rm`.
  absl::Status Began(const AttemptFolders& job);

  struct Record {
    std::string name;                   // of its file
    std::optional<AttemptFolders> job;  // absent: it cannot be read
  };
  // Returns the records, by where the file systems of their jobs' folders are mounted: MountPoints::Of.
  std::map<std::string, std::vector<Record>> List();
  // Removes what is old enough of these jobs. Returns how many records are left of them. Leaves alone what another
  // thread sweeps. Calls `enter`, which may be empty, with each job's folder, and ends where that returns an error.
  int Sweep(const std::vector<Record>& records, const MountCalls::Enter& enter = nullptr);

  // Records made since the last List.
  int unswept() const { return unswept_; }

 private:
  // An attempt's folder as it was seen last.
  struct Seen {
    absl::Time changed;  // by the clock of its file system
    absl::Time since;    // when it was first seen so, by ages_
  };
  using SeenFolders = std::map<std::string, std::map<std::string, Seen>>;  // by the record's name, by the folder's

  static std::optional<AgeMark> Load(const std::string& path, SeenFolders* seen);
  // Writes the ages down where they have changed.
  void Save();
  // Returns false where another thread does.
  bool Take(const std::string& record);
  // True where the record stays.
  bool SweepOne(const Record& record);
  absl::Duration AgeOf(const std::string& record, const std::string& folder, absl::Time changed);
  // Forgets the record, unless its job has just begun here; then it returns false.
  bool Drop(const std::string& record);

  const Options options_;
  std::atomic<int> unswept_{0};
  absl::Mutex saving_;  // one thread writes the ages
  absl::Mutex mutex_;
  SeenFolders seen_ ABSL_GUARDED_BY(mutex_);
  const AgeClock ages_;
  std::map<std::string, absl::Time> began_ ABSL_GUARDED_BY(mutex_);  // by the record's name; since this daemon's start
  std::set<std::string> taken_ ABSL_GUARDED_BY(mutex_);              // records that some thread sweeps
  bool changed_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Time next_save_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
};

}  // namespace adjoin

#endif  // ADJOIN_WORKER_DAEMON_ATTEMPT_RETENTION_H_
