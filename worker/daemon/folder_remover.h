// Removes what a job left below the output root, and nothing else.
//
//   ADJOIN_ASSIGN_OR_RETURN(RemovedFiles removed, RemoveJobFiles("/srv/output", request));
//   ADJOIN_ASSIGN_OR_RETURN(const int left, RemoveAttemptFolders("/srv/output", attempts_of_a_job, is_old));
//
// An attempt's note tells that a folder attempt-N is this job's, `.epoch` that the results are, the tag in its name
// that a checkpoint is. Whatever has no such proof stays: files of users and of other jobs, and results that a later
// job has written there. No link is followed, and none leads out of the root, also where folders change meanwhile. Any
// thread; waits for as long as the file system does.
#ifndef ADJOIN_WORKER_DAEMON_FOLDER_REMOVER_H_
#define ADJOIN_WORKER_DAEMON_FOLDER_REMOVER_H_

#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/deadline.h"
#include "proto/coordinator.pb.h"
#include "worker/daemon/mount_calls.h"

namespace adjoin {

struct RemovedFiles {
  uint64_t files = 0;
  uint64_t bytes = 0;
  Deadline until = Deadline::After(absl::Hours(1));  // no file and no folder is removed later
};

// From the request on: the coordinator may let the job be retried 60 s after it.
inline constexpr absl::Duration kRemovalTimeout = absl::Seconds(50);

// Removes the results, the attempts' folders and the checkpoints that the request names; then the notes and the
// folders themselves where nothing else is in them. Folders above them stay. A folder that is gone is no error. Calls
// `enter`, which may be empty, with each folder before it is touched, and returns its errors.
// Errors: kDeadlineExceeded (nothing is removed after `until`), kFailedPrecondition (a folder is another owner's; an
// attempt of the job still writes), kInvalidArgument (a path that a job cannot have), kUnavailable (another process
// keeps the folder locked), others as ErrnoStatus; what was removed until then is gone.
absl::StatusOr<RemovedFiles> RemoveJobFiles(const std::string& root, const RemoveFolders& request,
                                            const MountCalls::Enter& enter = nullptr,
                                            Deadline until = Deadline::After(kRemovalTimeout));

// A job whose attempts made folders in `output_dir`.
struct AttemptFolders {
  std::string output_dir;
  std::string job_id;
  uint64_t store_id = 0;
};

// Removes the folders of the job's attempts for which `is_old` returns true, and in which no attempt writes. `is_old`
// is called with the name of each, and with the time of its last change by the clock of its file system. Returns how
// many are left. Errors: as HoldBelow (path_rules.h), but a folder that is gone has none left.
absl::StatusOr<int> RemoveAttemptFolders(
    const std::string& root, const AttemptFolders& job,
    const std::function<bool(const std::string& name, absl::Time changed)>& is_old);

// Answers RemoveFolders messages, each on a thread of its own. A file system that does not answer holds up no removal
// elsewhere (mount_calls.h).
class FolderRemover {
 public:
  // Below the 60 s for which the coordinator waits; above kRemovalTimeout, so that nothing is removed after the answer.
  static constexpr absl::Duration kAnswerTimeout = absl::Seconds(55);

  // `send` passes a message to the coordinator.
  FolderRemover(
      std::string output_root, std::function<void(WorkerMessage)> send,
      MountCalls::Limits limits = {.of_one_mount = 4, .waiting_for_one = 12, .in_all = 64, .time = kAnswerTimeout})
      : output_root_(std::move(output_root)), send_(std::move(send)), calls_({output_root_}, limits) {}

  // Sends one FoldersRemoved when it is done, also where that failed, and when the file system does not answer in
  // time. Does not wait.
  void Remove(const RemoveFolders& request);

 private:
  void Answer(const std::string& request_id, const absl::Status& status, const RemovedFiles& removed);

  const std::string output_root_;
  const std::function<void(WorkerMessage)> send_;
  MountCalls calls_;  // last: its threads use the rest
};

}  // namespace adjoin

#endif  // ADJOIN_WORKER_DAEMON_FOLDER_REMOVER_H_
