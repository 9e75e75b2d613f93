// A model's weights and buffers (running statistics) in one safetensors file with PyTorch's state_dict names.
//
//   ADJOIN_ASSIGN_OR_RETURN(auto differences, LoadModel("model.safetensors", /*strict=*/true, &parameters));
//   ADJOIN_RETURN_IF_ERROR(SaveModel("model.safetensors", plan, &communicator, parameters));     // on every rank
#ifndef ADJOIN_WORKER_RUNTIME_MODEL_FILE_H_
#define ADJOIN_WORKER_RUNTIME_MODEL_FILE_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "layers/parameters.h"
#include "primitives/comm/communicator.h"
#include "proto/plan.pb.h"

namespace adjoin {

struct ModelDifferences {
  std::vector<std::string> missing;    // parameters that are not in the file
  std::vector<std::string> extra;      // tensors of the file that are no parameter
  std::vector<std::string> misshaped;  // "fc1.weight: 120x400 in the model, 10x84 in the file"
  bool empty() const { return missing.empty() && extra.empty() && misshaped.empty(); }
  std::string ToString() const;
};

// Reads this rank's box of every parameter, converting the type. Not collective: each rank reads the file. Parameters
// that differ keep their values and are returned.
// Errors: as SafetensorsReader; kInvalidArgument that lists the differences where there are any and `strict` is set;
// then no parameter has changed.
absl::StatusOr<ModelDifferences> LoadModel(const std::string& path, bool strict, Parameters* parameters);

// Brings one parameter at a time to rank 0, which writes it; other ranks write nothing. Collective.
// Errors: as SafetensorsWriter; what a movement fails with.
absl::Status SaveModel(const std::string& path, const Plan& plan, Communicator* communicator,
                       const Parameters& parameters);

}  // namespace adjoin

#endif  // ADJOIN_WORKER_RUNTIME_MODEL_FILE_H_
