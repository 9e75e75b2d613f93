// Checkpoint.dir: what is there, whether it is whole, and how one is finished and removed. Knows nothing of ranks in
// flight; rank 0 writes and removes, every rank reads.
//
//   ADJOIN_ASSIGN_OR_RETURN(std::vector<CheckpointName> names, ListCheckpoints(files, "lenet5/ckpt"));   // newest first
//   ADJOIN_ASSIGN_OR_RETURN(Manifest manifest, ReadManifest(files, "lenet5/ckpt", names[0]));
//   for (int i = 0; i < n; ++i) ADJOIN_RETURN_IF_ERROR(VerifyFile(files, "lenet5/ckpt", manifest, i));
//   ADJOIN_RETURN_IF_ERROR(ReadBox(files, "lenet5/ckpt", manifest, "conv1.weight", box, out, nullptr));
//
// Any thread.
#ifndef ADJOIN_WORKER_CHECKPOINT_CHECKPOINT_FOLDER_H_
#define ADJOIN_WORKER_CHECKPOINT_CHECKPOINT_FOLDER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "primitives/geometry/box.h"
#include "worker/checkpoint/file_system.h"
#include "worker/checkpoint/manifest.h"

namespace adjoin {

// All folders called as checkpoints are, finished or not, newest first; none where `dir` does not exist.
absl::StatusOr<std::vector<CheckpointName>> ListCheckpoints(FileSystem& files, const std::string& dir);

// Errors: kNotFound where it was never finished; kDataLoss that says what is wrong with it; kUnimplemented where a newer release
// wrote it; as FileSystem, which proves nothing against it.
absl::StatusOr<Manifest> ReadManifest(FileSystem& files, const std::string& dir, const CheckpointName& name);

// Whether a file of it has the size and the checksum that the manifest says.
// Errors: kDataLoss that names the file and the tensor that is damaged, kNotFound where there is no such file; as FileSystem,
// which proves nothing against it.
absl::Status VerifyFile(FileSystem& files, const std::string& dir, const Manifest& manifest, int file);

// Reads a box of a tensor, row-major, of the manifest's type, from the pieces that have some of it. `bytes_read` (may be
// null) grows by what was read. Errors: kNotFound (no such tensor), as FileSystem.
absl::Status ReadBox(FileSystem& files, const std::string& dir, const Manifest& manifest, const std::string& tensor,
                     const Box& box, void* out, int64_t* bytes_read);

// Whether an error of ReadManifest or VerifyFile proves that the checkpoint is damaged or was never finished. A disk that fails
// to read, a file server that restarts, a process without descriptors left prove nothing.
bool IsProven(const absl::Status& status);

// Makes a checkpoint whole, once what `ranks` wrote is durable: reads their notes, writes the manifest, which is durable
// afterwards, and removes the notes. `manifest` says everything but the ranks' files and pieces.
// Errors: kFailedPrecondition (a note is not there: the ranks do not share the folder), kDataLoss, as FileSystem.
absl::Status FinishCheckpoint(FileSystem& files, const std::string& dir, const std::vector<int>& ranks, Manifest manifest);

// The manifest goes first, so that at no moment something looks whole and is not. Nothing where it does not exist.
absl::Status RemoveCheckpoint(FileSystem& files, const std::string& dir, const CheckpointName& name);

// Which of a job's checkpoints are kept.
struct Retention {
  uint32_t keep_last = 0;        // 0: all
  std::string keep_best = "";    // a metric of Manifest::validation; "": none
  bool larger_is_better = false;
};

// Removes what the job does not need any more once `newest` is durable: what it or earlier attempts did not finish; `damaged`,
// which this attempt has proven to be so; and, where `retention` keeps only some, those with a damaged manifest and the valid
// ones beyond it. A later step of an earlier attempt is as good as any other: the next attempt goes on from it. Of other jobs
// and of later attempts nothing, nor what a newer release wrote, nor what cannot be read just now: it may be whole.
// What cannot be removed is left: the errors, one a line, are for people.
std::vector<std::string> RemoveOld(FileSystem& files, const std::string& dir, const CheckpointName& newest,
                                   const std::vector<CheckpointName>& damaged, const Retention& retention);

}  // namespace adjoin

#endif  // ADJOIN_WORKER_CHECKPOINT_CHECKPOINT_FOLDER_H_
