// A checkpoint named by one path, and the weights in it: those of a model, without the optimizer's state.
//
//   if (const auto place = CheckpointPlace::Parse("lenet5/ckpt/step-0000000042.5-00c0ffee00c0ffee")) {
//     ADJOIN_ASSIGN_OR_RETURN(const Manifest manifest, ReadManifest(files, place->dir, place->name));
//     const ModelDifferences differences = CompareModel(WeightsIn(manifest), {{"fc.weight", {10, 84}}});
//   }
//
// Any thread.
#ifndef ADJOIN_WORKER_CHECKPOINT_CHECKPOINT_PLACE_H_
#define ADJOIN_WORKER_CHECKPOINT_CHECKPOINT_PLACE_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "worker/checkpoint/manifest.h"
#include "worker/model/safetensors.h"

namespace adjoin {

struct CheckpointPlace {
  std::string dir;  // "": the root itself
  CheckpointName name;

  std::string ToString() const;
  // Absent where the last part of `path` is not the name of a checkpoint.
  static std::optional<CheckpointPlace> Parse(const std::string& path);
};

// The error where a job cannot begin with its weights, with what may have become of them: kFailedPrecondition and a
// HopelessFailure, as no later attempt finds them either.
absl::Status NoCheckpoint(const CheckpointPlace& place);

// Returns the parameters and running statistics in a checkpoint, in the shapes of their homes.
std::vector<SafetensorsEntry> WeightsIn(const Manifest& manifest);

}  // namespace adjoin

#endif  // ADJOIN_WORKER_CHECKPOINT_CHECKPOINT_PLACE_H_
