// The checkpoints in Checkpoint.dir: lists, verifies, reads, finishes and removes them. Rank 0 writes and removes,
// every rank reads.
//
//   ADJOIN_ASSIGN_OR_RETURN(std::vector<CheckpointName> names, ListCheckpoints(files, "lenet5/ckpt"));   // newest
//   first ADJOIN_ASSIGN_OR_RETURN(Manifest manifest, ReadManifest(files, "lenet5/ckpt", names[0])); for (int i = 0; i <
//   n; ++i) ADJOIN_RETURN_IF_ERROR(VerifyFile(files, "lenet5/ckpt", manifest, i));
//   ADJOIN_RETURN_IF_ERROR(ReadBox(files, "lenet5/ckpt", manifest, "conv1.weight", box, out, nullptr));
//
// Any thread.
#ifndef ADJOIN_WORKER_CHECKPOINT_CHECKPOINT_FOLDER_H_
#define ADJOIN_WORKER_CHECKPOINT_CHECKPOINT_FOLDER_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "primitives/geometry/box.h"
#include "worker/checkpoint/file_system.h"
#include "worker/checkpoint/manifest.h"

namespace adjoin {

// Returns all checkpoints, finished or not, newest first; none where `dir` does not exist.
absl::StatusOr<std::vector<CheckpointName>> ListCheckpoints(FileSystem& files, const std::string& dir);

// Errors: kNotFound (it was never finished); kDataLoss with what is wrong; kUnimplemented (a newer release wrote it);
// as FileSystem, which does not prove that it is damaged.
absl::StatusOr<Manifest> ReadManifest(FileSystem& files, const std::string& dir, const CheckpointName& name);

// Checks that manifest.files[file] has the size and the checksum that the manifest has for it.
// Errors: kDataLoss with the file and the damaged tensor; kNotFound (no such file); as FileSystem, which does not prove
// that it is damaged.
absl::Status VerifyFile(FileSystem& files, const std::string& dir, const Manifest& manifest, int file);

// Checks the cells of one piece of a tensor by its own checksum. Errors: kDataLoss, kNotFound, as FileSystem.
absl::Status VerifyPiece(FileSystem& files, const std::string& dir, const Manifest& manifest, const std::string& tensor,
                         const Manifest::Piece& piece);

// Reads a box of a tensor, row-major, in the manifest's type, from the pieces that meet it. `bytes_read` (may be null)
// grows by the bytes that were read. Errors: kNotFound (no such tensor), as FileSystem.
absl::Status ReadBox(FileSystem& files, const std::string& dir, const Manifest& manifest, const std::string& tensor,
                     const Box& box, void* out, int64_t* bytes_read);

// True where an error of ReadManifest or VerifyFile proves that the checkpoint is damaged or was never finished. A disk
// that fails to read, a file server that restarts, or a process without descriptors proves nothing.
bool IsProven(const absl::Status& status);

// Makes a checkpoint whole, once what `ranks` wrote is durable: reads their notes, writes the manifest, which is
// durable afterwards, and removes the notes. `manifest` has everything but the ranks' files and pieces.
// Errors: kFailedPrecondition (a note is not there: the ranks do not share the folder), kDataLoss, as FileSystem.
absl::Status FinishCheckpoint(FileSystem& files, const std::string& dir, const std::vector<int>& ranks,
                              Manifest manifest);

// Removes the manifest first, so that at no moment a checkpoint looks whole and is not. Does nothing where it does not
// exist.
absl::Status RemoveCheckpoint(FileSystem& files, const std::string& dir, const CheckpointName& name);

// Rules for which of a job's checkpoints are kept.
struct Retention {
  uint32_t keep_last = 0;      // 0: all
  std::string keep_best = "";  // a metric of Manifest::validation; "": none
  bool larger_is_better = false;
};

// Returns the checkpoint with the best value of retention.keep_best, the newest of equal ones. `finished`: newest
// first.
std::optional<CheckpointName> BestCheckpoint(const std::vector<std::pair<CheckpointName, Manifest>>& finished,
                                             const Retention& retention);

// Removes the checkpoints that the job does not need any more once `newest` is durable: those that this attempt or
// earlier ones did not finish; `damaged`, which this attempt found damaged; and, where `retention` keeps only some,
// those with a damaged manifest and the valid ones beyond `retention`. A later step of an earlier attempt counts like
// any other: the next attempt goes on from it. It does not remove checkpoints of other jobs or later attempts, those
// that a newer release wrote, and those that cannot be read just now, since they may be whole. Returns the errors of
// what could not be removed, for the log.
std::vector<std::string> RemoveOld(FileSystem& files, const std::string& dir, const CheckpointName& newest,
                                   const std::vector<CheckpointName>& damaged, const Retention& retention);

}  // namespace adjoin

#endif  // ADJOIN_WORKER_CHECKPOINT_CHECKPOINT_FOLDER_H_
