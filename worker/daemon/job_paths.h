// The files and folders of a job, before its ranks start.
//
//   ADJOIN_RETURN_IF_ERROR(PrepareJobPaths({.data_root = "/srv/data", .output_root = "/srv/output"}, start_ranks));
//
// Any thread. Waits for as long as the file systems do.
#ifndef ADJOIN_WORKER_DAEMON_JOB_PATHS_H_
#define ADJOIN_WORKER_DAEMON_JOB_PATHS_H_

#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "proto/coordinator.pb.h"
#include "worker/daemon/attempt_retention.h"
#include "worker/daemon/mount_calls.h"
#include "worker/daemon/process_spawner.h"

namespace adjoin {

struct JobRoots {
  std::string data_root, output_root;
  std::optional<User> rank_user = {};  // gets the folders of results and of checkpoints; absent: the daemon's own user
  std::shared_ptr<AttemptRetention> retention = {};  // removes folders of attempts some day; absent: they stay
};

// Checks that all that the job reads and writes is below the roots and in no folder of another owner; makes its folders
// of results and of checkpoints, and writes down there whose they are (folder_owner.h).
// Errors: kResourceExhausted (no space is left for them), which is not the job's fault; all others are.
// kFailedPrecondition: a folder is another owner's, which no other attempt can change. Calls `enter`, which may be
// empty, with each file and folder before it is touched, and returns its errors.
absl::Status PrepareJobPaths(const JobRoots& roots, const StartRanks& start, const MountCalls::Enter& enter = nullptr);

}  // namespace adjoin

#endif  // ADJOIN_WORKER_DAEMON_JOB_PATHS_H_
