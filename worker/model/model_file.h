// A model's weights and buffers (running statistics) in one safetensors file with PyTorch's state_dict names.
//
//   ADJOIN_ASSIGN_OR_RETURN(auto differences, LoadModel("model.safetensors", /*strict=*/true, &parameters));
//   ADJOIN_RETURN_IF_ERROR(SaveModel("model.safetensors", plan, &communicator, parameters));     // on every rank
#ifndef ADJOIN_WORKER_MODEL_MODEL_FILE_H_
#define ADJOIN_WORKER_MODEL_MODEL_FILE_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "layers/network/parameters.h"
#include "primitives/comm/communicator.h"
#include "proto/plan.pb.h"
#include "worker/model/model_differences.h"

namespace adjoin {

// Reads this rank's box of every parameter, converting the type. Not collective: each rank reads the file. Parameters
// that differ keep their values and are returned. `sums`: what the file has to hold, where it is read; null: anything.
// `path` must open the same file throughout (HeldPath).
// Errors: as SafetensorsReader, FileCheck and CheckDifferences. After an error of the last no parameter has changed.
absl::StatusOr<ModelDifferences> LoadModel(const std::string& path, bool strict, Parameters* parameters,
                                           const FileSums* sums = nullptr);

// Brings one parameter at a time to rank 0, which writes it; other ranks write nothing. Collective.
// Errors: as SafetensorsWriter and Communicator.
absl::Status SaveModel(const std::string& path, const Plan& plan, Communicator* communicator,
                       const Parameters& parameters);

}  // namespace adjoin

#endif  // ADJOIN_WORKER_MODEL_MODEL_FILE_H_
