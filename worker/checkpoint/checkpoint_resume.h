// Puts a job where a checkpoint left it, whatever number of ranks wrote it and however its tensors were cut.
//
//   ADJOIN_ASSIGN_OR_RETURN(std::optional<Manifest> from, ResumeFromCheckpoint(options, tensors, sums));   // on every rank
//   if (from.has_value()) trainer->Resume(from->name.step);
//
// A job goes on by itself from the newest of its own checkpoints that is valid; from those of another job only where
// `resume_from` names their folder. Rank 0 chooses, and all ranks together look whether every byte is as it was written: each
// verifies some of the files. One that is not, was never finished or is of a newer release is skipped by all of them, and the
// log says why. One that cannot be read just now may be whole: the attempt fails, rather than to lose its steps. Then each rank
// reads what its boxes have in common with the stored ones.
#ifndef ADJOIN_WORKER_CHECKPOINT_CHECKPOINT_RESUME_H_
#define ADJOIN_WORKER_CHECKPOINT_CHECKPOINT_RESUME_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/checkpoint/checkpoint_tensor.h"
#include "worker/checkpoint/file_system.h"
#include "worker/checkpoint/manifest.h"
#include "worker/checkpoint/rank_sums.h"

namespace adjoin {

struct ResumeOptions {
  FileSystem* files = nullptr;
  std::string dir;          // Checkpoint.dir; "": none
  std::string resume_from;  // Checkpoint.resume_from; "": none
  JobIdentity job;
  int rank = 0;
  int ranks = 1;
  std::function<void(const std::string&)> log;
  std::vector<CheckpointName>* damaged = nullptr;  // on rank 0: grows by those in `dir` that were proven to be so; may be null
};

struct Resumed {
  Manifest manifest;
  std::string dir;         // where it lies
  int64_t bytes_read = 0;  // of tensors, by this rank
};

// The tag of a job's checkpoints. Of a job without an id there is none: 0.
uint64_t TagOf(const JobIdentity& job);

// Fills `tensors`, which all have their names, types and shapes; absent: there is nothing to go on from, and they are as they
// were. Collective.
// Errors, on all ranks alike but for words: kInvalidArgument that lists the tensors that are missing, too many or of other
// shapes; kNotFound (resume_from has none that is valid; says why each is not); kFailedPrecondition (a rank does not see what
// rank 0 sees); kUnavailable (a rank cannot read one, and may the next time: no other is taken in its place); of `dir` itself
// as FileSystem; those of the sums.
absl::StatusOr<std::optional<Resumed>> ResumeFromCheckpoint(const ResumeOptions& options,
                                                            const std::vector<CheckpointTensor>& tensors,
                                                            const RankSums& sums);

}  // namespace adjoin

#endif  // ADJOIN_WORKER_CHECKPOINT_CHECKPOINT_RESUME_H_
