// The notes of attempts in a job's folders: which attempt began last in an output_dir (`.epoch`, changed only with
// `.epoch.lock` locked), and which attempt made an attempt-N folder (`.attempt` in it).
//
//   const std::string me = "attempt 5 of job-12";
//   ADJOIN_ASSIGN_OR_RETURN(std::unique_ptr<FolderLock> lock, FolderLock::Take(folder, me, deadline));
//   ADJOIN_ASSIGN_OR_RETURN(AttemptNote latest, ReadAttemptNote(folder + "/.epoch"));
//   if (latest.IsOf("job-12", store_id)) ...            // the results in the folder are that job's
//
// Any thread.
#ifndef ADJOIN_WORKER_SESSION_ATTEMPT_NOTES_H_
#define ADJOIN_WORKER_SESSION_ATTEMPT_NOTES_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/deadline.h"

namespace adjoin {

inline constexpr char kEpochFile[] = ".epoch";
inline constexpr char kLockFile[] = ".epoch.lock";
inline constexpr char kAttemptFile[] = ".attempt";

// "5 job-12 store-00000000000000ff".
struct AttemptNote {
  uint64_t epoch = 0;
  std::string job_id;
  uint64_t store_id = 0;  // 0 where the file names none

  bool IsOf(const std::string& job, uint64_t store) const { return epoch != 0 && job_id == job && store_id == store; }
  std::string ToText() const;
  bool operator==(const AttemptNote& other) const {
    return epoch == other.epoch && job_id == other.job_id && store_id == other.store_id;
  }
};

// Epoch 0 where there is no such file. Errors: kUnavailable; kDataLoss (no attempt wrote it).
absl::StatusOr<AttemptNote> ReadAttemptNote(const std::string& path);

// The lock of one folder, held until its destruction or the end of the process.
class FolderLock {
 public:
  // `holder`, for those who wait in vain: "attempt 5 of job-12". Errors: kUnavailable; where another process keeps it,
  // it is named, and the failure is one of the infrastructure.
  static absl::StatusOr<std::unique_ptr<FolderLock>> Take(const std::string& folder, const std::string& holder,
                                                          Deadline deadline);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  explicit FolderLock(int fd) : fd_(fd) {}
  void NameHolder(const std::string& holder);
  std::string Holder();

  const int fd_;
};

}  // namespace adjoin

#endif  // ADJOIN_WORKER_SESSION_ATTEMPT_NOTES_H_
