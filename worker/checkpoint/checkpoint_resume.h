// Resumes a job from a checkpoint, whatever number of ranks wrote it and however its tensors were cut.
//
//   ADJOIN_ASSIGN_OR_RETURN(std::optional<Resumed> from, ResumeFromCheckpoint(options, tensors, sums));   // on every
//   rank if (from.has_value()) trainer->Resume(from->manifest.name.step);
//
// A job resumes from the newest of its own checkpoints that is valid; from another job's checkpoints only where
// `resume_from` names their folder. Rank 0 chooses; all ranks together check every byte: each verifies some of the
// files. All ranks skip a checkpoint that is damaged, was never finished or was written by a newer release, and log
// why. A checkpoint that cannot be read just now may be whole: the attempt fails, rather than losing its steps. Then
// each rank reads what its boxes have in common with the stored boxes.
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
  std::vector<CheckpointName>* damaged = nullptr;  // on rank 0: grows by those in `dir` that are damaged; may be null
};

struct Resumed {
  Manifest manifest;
  std::string dir;         // the folder of checkpoints that it is in
  int64_t bytes_read = 0;  // by this rank, from tensors
};

// Returns the tag of a job's checkpoints: its own, or that of its store and id where its coordinator gave it none; 0,
// no tag, for a job without an id.
uint64_t TagOf(const JobIdentity& job);

// Fills `tensors`, whose names, types and shapes are set. Absent: there is no checkpoint to resume from, and the
// tensors are unchanged. Collective.
// Errors, with the same code on all ranks: kInvalidArgument with the tensors that are missing, too many or of other
// shapes; kNotFound (resume_from has no valid checkpoint); kFailedPrecondition (a rank does not see what rank 0 sees);
// kUnavailable (a rank cannot read a checkpoint just now; no other is taken in its place); as FileSystem for `dir`
// itself; those of the sums.
absl::StatusOr<std::optional<Resumed>> ResumeFromCheckpoint(const ResumeOptions& options,
                                                            const std::vector<CheckpointTensor>& tensors,
                                                            const RankSums& sums);

}  // namespace adjoin

#endif  // ADJOIN_WORKER_CHECKPOINT_CHECKPOINT_RESUME_H_
