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
// that differ keep their values and are returned.
// Errors: as SafetensorsReader; as CheckDifferences. After an error of CheckDifferences no parameter has changed.
absl::StatusOr<ModelDifferences> LoadModel(const std::string& path, bool strict, Parameters* parameters);

// Brings one parameter at a time to rank 0, which writes it; other ranks write nothing. Collective.
// Errors: as SafetensorsWriter and Communicator.
absl::Status SaveModel(const std::string& path, const Plan& plan, Communicator* communicator,
                       const Parameters& parameters);

}  // namespace adjoin

#endif  // ADJOIN_WORKER_MODEL_MODEL_FILE_H_
