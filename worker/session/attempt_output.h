// The folder of a job's results, which several attempts may use at once: a rank that was cut off or stopped may still
// run when the next attempt has begun elsewhere.
//
//   ADJOIN_ASSIGN_OR_RETURN(auto output, AttemptOutput::Begin({.root = "/srv/results",
//                                                              .output_dir = "lenet5",
//                                                              .epoch = 5,
//                                                              .job_id = "job-12",
//                                                              .store_id = 77}, deadline));
//   ADJOIN_RETURN_IF_ERROR(output->AsShown(Write(output->folder() + "/x.npy")));  // lenet5/attempt-5/x.npy
//   ADJOIN_RETURN_IF_ERROR(output->Publish({"x.npy"}, deadline));                 // lenet5/x.npy
//
// `output_dir/.epoch` holds the attempt that began there last: its epoch, its job, and the store of the coordinator
// that counted the epoch. Only that attempt publishes, and no attempt begins after one of the same store with a higher
// epoch. Epochs of different stores cannot be compared: there the attempt that begins later counts. Begin and Publish
// lock `output_dir/.epoch.lock`, so that between the comparison and the renaming no other attempt begins (where the
// file system has locks). An attempt that failed leaves its files in its folder until a later one begins, which removes
// only folders that attempts have made: each has a note, `.attempt`, that names its attempt. With epoch 0 no attempt is
// fenced off: folder() is output_dir, and Publish does nothing. No link leads out of the root, not even one that is
// made later (path_rules.h).
//
// Where output_dir, or .epoch in it, is removed while the attempt runs, CheckLatest and Publish make it again, so that
// what is still to be written is kept; files that were written before are gone. One thread; CheckLatest any, also
// beside the others.
#ifndef ADJOIN_WORKER_SESSION_ATTEMPT_OUTPUT_H_
#define ADJOIN_WORKER_SESSION_ATTEMPT_OUTPUT_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "base/deadline.h"
#include "worker/data/path_rules.h"

namespace adjoin {

class AttemptOutput {
 public:
  struct Options {
    std::string root;
    std::string output_dir;  // below the root (path_rules.h); made where it does not exist
    uint64_t epoch = 0;      // grows from attempt to attempt, over all jobs
    std::string job_id;
    uint64_t store_id = 0;  // where the epoch was counted
  };

  // Errors: kFailedPrecondition (a later attempt has begun; another job's attempt writes there at this moment;
  // a folder with the attempt's name exists and no attempt made it); as HoldFolder; kDataLoss (an .epoch that no
  // attempt wrote); kUnavailable with the path and the system's reason. The node is to blame (IsInfrastructureFailure)
  // for a lock that another process keeps until the deadline, which the message names, and for an output root that is
  // gone. Messages name paths as the job has them.
  static absl::StatusOr<std::unique_ptr<AttemptOutput>> Begin(Options options, Deadline deadline);

  // Valid while this lives. Another one after CheckLatest has made it again.
  std::string folder() const;
  // The same error with the job's words for folder().
  absl::Status AsShown(const absl::Status& status) const;

  // OK while it is the latest attempt. Errors: kFailedPrecondition that names the later one; as Begin.
  absl::Status CheckLatest();

  // Moves `files` of folder(), which are durable, to output_dir, makes that durable and removes folder() with all that
  // is left in it. Errors: as CheckLatest and Begin; as ReplaceFile (base/new_file.h).
  absl::Status Publish(const std::vector<std::string>& files, Deadline deadline);

 private:
  // output_dir and the attempt's folder in it.
  struct Folders {
    HeldPath home, folder;
  };
  AttemptOutput(Options options, Folders folders) : options_(std::move(options)) {
    made_.push_back(std::make_unique<Folders>(std::move(folders)));
  }
  static absl::StatusOr<Folders> Make(const Options& options, Deadline deadline);
  const Folders& folders() const;
  // Makes again what was removed.
  absl::Status Restore(Deadline deadline);

  const Options options_;
  mutable absl::Mutex mutex_;
  // The newest last; the older ones keep what folder() returned valid.
  std::vector<std::unique_ptr<Folders>> made_ ABSL_GUARDED_BY(mutex_);
  absl::Mutex restoring_ ABSL_ACQUIRED_BEFORE(mutex_);
};

}  // namespace adjoin

#endif  // ADJOIN_WORKER_SESSION_ATTEMPT_OUTPUT_H_
