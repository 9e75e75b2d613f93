// What one rank writes of a checkpoint: its boxes, in a safetensors file, and a note of it for the rank that writes the manifest.
//
//   std::vector<HeldBox> held = {{"conv1.weight", DType::kFloat32, Box::Whole({6, 1, 5, 5}), data}};
//   ADJOIN_RETURN_IF_ERROR(WriteRankFile(files, "ckpt/step-0000000042.5-0000000000000007", name, /*rank=*/3, held, stop));
//   WritesBox(layout, /*rank=*/3, /*tensor=*/0);       // whether this rank writes its box, or another that has the same
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

// Whether `rank` writes its box of the tensor. Of ranks that have the same one, one does: another for each tensor, so that
// replicated networks are written by all of them together.
bool WritesBox(const Layout& home, int rank, int tensor);

// Writes both files durably; nothing where nothing is held. `stop`: gives up soon once it is set, with kCancelled.
// Errors: as FileSystem.
absl::Status WriteRankFile(FileSystem& files, const std::string& folder, const CheckpointName& name, int rank,
                           const std::vector<HeldBox>& held, const std::atomic<bool>& stop);

// Copies the first `bytes` of a file to `folder`/`name` and syncs it, not the folder. Errors: kDataLoss where it is
// shorter; as FileSystem.
absl::StatusOr<Manifest::File> CopyFile(FileSystem& files, const std::string& from, int64_t bytes,
                                        const std::string& folder, const std::string& name, const std::atomic<bool>& stop);

}  // namespace adjoin

#endif  // ADJOIN_WORKER_CHECKPOINT_RANK_FILE_H_
