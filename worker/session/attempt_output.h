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
// made later (path_rules.h). One thread; CheckLatest any, also beside the others.
#ifndef ADJOIN_WORKER_SESSION_ATTEMPT_OUTPUT_H_
#define ADJOIN_WORKER_SESSION_ATTEMPT_OUTPUT_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
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
  // attempt wrote); kDeadlineExceeded (another attempt keeps it locked); kUnavailable with the path and the system's
  // reason. Messages name paths as the job has them.
  static absl::StatusOr<std::unique_ptr<AttemptOutput>> Begin(Options options, Deadline deadline);

  std::string folder() const { return folder_.path(); }  // valid while this lives
  // The same error with the job's words for folder().
  absl::Status AsShown(const absl::Status& status) const { return folder_.AsShown(status); }

  // OK while it is the latest attempt. Errors: kFailedPrecondition that names the later one; as Begin.
  absl::Status CheckLatest() const;

  // Moves `files` of folder(), which are durable, to output_dir, makes that durable and removes folder() with all that
  // is left in it. Errors: as CheckLatest and Begin.
  absl::Status Publish(const std::vector<std::string>& files, Deadline deadline);

 private:
  AttemptOutput(Options options, HeldPath home, HeldPath folder)
      : options_(std::move(options)), home_(std::move(home)), folder_(std::move(folder)) {}

  const Options options_;
  const HeldPath home_;  // output_dir
  const HeldPath folder_;
};

}  // namespace adjoin

#endif  // ADJOIN_WORKER_SESSION_ATTEMPT_OUTPUT_H_
