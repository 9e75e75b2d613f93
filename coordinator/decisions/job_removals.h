// Jobs that a user removes: which worker has their files, and that nothing starts them meanwhile.
//
//   ADJOIN_ASSIGN_OR_RETURN(JobRemoval removal, removals.Begin(job, /*files=*/true));
//   ... send removal.folders to removal.connection, and wait for the answer ...
//   removals.End(removal.job_id, /*forget=*/true);
//
// Not thread-safe.
#ifndef ADJOIN_COORDINATOR_DECISIONS_JOB_REMOVALS_H_
#define ADJOIN_COORDINATOR_DECISIONS_JOB_REMOVALS_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "coordinator/decisions/job_record.h"
#include "coordinator/decisions/job_table.h"
#include "coordinator/decisions/submissions.h"
#include "coordinator/decisions/worker_table.h"
#include "proto/coordinator.pb.h"

namespace adjoin {

struct JobRemoval {
  std::string job_id;
  ConnectionId connection = 0;  // of the worker that has its files; 0: it has none
  std::string worker;
  RemoveFolders folders;  // all but the request's id
};

class JobRemovals {
 public:
  // All arguments outlive the removals.
  JobRemovals(JobTable& jobs, WorkerTable& workers, Submissions& submissions)
      : jobs_(jobs), workers_(workers), submissions_(submissions) {}
  JobRemovals(const JobRemovals&) = delete;
  JobRemovals& operator=(const JobRemovals&) = delete;

  // Until End, the job cannot be retried. `files`: its folders are to be removed, too.
  // Errors: kFailedPrecondition (it has not ended; a worker may still have processes of it; it is being removed
  // already; with `files`, a job that has not ended writes in one of its folders), kUnavailable (the worker that has
  // its files is not connected).
  absl::StatusOr<JobRemoval> Begin(JobRecord& job, bool files, uint64_t store_id);
  void End(const std::string& job_id, bool forget);

 private:
  const JobRecord* UserOfFolders(const JobRecord& job) const;

  JobTable& jobs_;
  WorkerTable& workers_;
  Submissions& submissions_;
};

}  // namespace adjoin

#endif  // ADJOIN_COORDINATOR_DECISIONS_JOB_REMOVALS_H_
