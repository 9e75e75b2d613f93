// Writes one rank's part of a checkpoint: a safetensors file with its boxes, and a note of them for rank 0, which
// writes the manifest.
//
//   std::vector<HeldBox> held = {
//       {.tensor = "conv1.weight", .dtype = DType::kFloat32, .box = Box::Whole({6, 1, 5, 5}), .data = data}};
//   ADJOIN_RETURN_IF_ERROR(WriteRankFile(files, "ckpt/step-0000000042.5-0000000000000007", name, /*rank=*/3, held,
//   stop)); WritesBox(layout, /*rank=*/3, /*tensor=*/0);       // false where another rank with the same box writes it
//
// Any thread.
#ifndef ADJOIN_WORKER_CHECKPOINT_RANK_FILE_H_
#define ADJOIN_WORKER_CHECKPOINT_RANK_FILE_H_

#include <atomic>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "primitives/geometry/box.h"
#include "primitives/geometry/dtype.h"
#include "primitives/geometry/layout.h"
#include "worker/checkpoint/file_system.h"
#include "worker/checkpoint/manifest.h"

namespace adjoin {

// A box of a tensor's global indices, row-major in memory.
struct HeldBox {
  std::string tensor;
  DType dtype = DType::kFloat32;
  Box box;
  const void* data = nullptr;

  int64_t Bytes() const { return box.Volume() * SizeOf(dtype); }
};

// True where `rank` writes its box of the tensor. One of the ranks that have the same box does; which one depends on
// the tensor's number, so that the ranks of a replicated network share the writing.
bool WritesBox(const Layout& home, int rank, int tensor);

// Writes both files durably; none where `held` is empty. Ends soon with kCancelled once `stop` is set.
// Errors: as FileSystem.
absl::Status WriteRankFile(FileSystem& files, const std::string& folder, const CheckpointName& name, int rank,
                           const std::vector<HeldBox>& held, const std::atomic<bool>& stop);

// Copies the first `bytes` of a file to `folder`/`name` and syncs the copy, not the folder. Errors: kDataLoss where the
// file is shorter; as FileSystem.
absl::StatusOr<Manifest::File> CopyFile(FileSystem& files, const std::string& from, int64_t bytes,
                                        const std::string& folder, const std::string& name,
                                        const std::atomic<bool>& stop);

}  // namespace adjoin

#endif  // ADJOIN_WORKER_CHECKPOINT_RANK_FILE_H_
