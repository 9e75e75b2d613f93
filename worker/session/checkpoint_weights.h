// The weights that a job begins with, from a checkpoint of another one.
//
//   ADJOIN_ASSIGN_OR_RETURN(auto differences, LoadCheckpointWeights(files, place, /*strict=*/true, &parameters));
#ifndef ADJOIN_WORKER_SESSION_CHECKPOINT_WEIGHTS_H_
#define ADJOIN_WORKER_SESSION_CHECKPOINT_WEIGHTS_H_

#include "absl/status/statusor.h"
#include "layers/network/parameters.h"
#include "worker/checkpoint/checkpoint_place.h"
#include "worker/checkpoint/file_system.h"
#include "worker/model/model_differences.h"

namespace adjoin {

// Reads this rank's box of every parameter, whatever ranks wrote the checkpoint and however they cut it, converting the
// type; the optimizer's state is left. Every piece that is read is checked against its checksum before. Not collective.
// Parameters that differ keep their values and are returned.
// Errors: kNotFound (the checkpoint is not there any more); kDataLoss (damaged); as ReadManifest and CheckDifferences.
// After an error of CheckDifferences no parameter has changed.
absl::StatusOr<ModelDifferences> LoadCheckpointWeights(FileSystem& files, const CheckpointPlace& place, bool strict,
                                                       Parameters* parameters);

}  // namespace adjoin

#endif  // ADJOIN_WORKER_SESSION_CHECKPOINT_WEIGHTS_H_
