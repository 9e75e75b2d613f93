// The tensors of a job's model, from its plan, as a daemon needs them to put the model together from a checkpoint.
//
//   ADJOIN_ASSIGN_OR_RETURN(const std::string plan, store.Plan(17));
//   ADJOIN_RETURN_IF_ERROR(AddModelTensors(plan, send.mutable_checkpoint()));
#ifndef ADJOIN_COORDINATOR_SERVICES_MODEL_TENSORS_H_
#define ADJOIN_COORDINATOR_SERVICES_MODEL_TENSORS_H_

#include <string>

#include "absl/status/status.h"
#include "proto/coordinator.pb.h"

namespace adjoin {

// Adds the parameters of a serialized Plan, in its order, by name and with their shapes in a state_dict. Of the plan,
// which may have 256 MiB, one parameter at a time is parsed. Errors: kDataLoss (it is no plan).
absl::Status AddModelTensors(const std::string& plan, CheckpointRead* read);

}  // namespace adjoin

#endif  // ADJOIN_COORDINATOR_SERVICES_MODEL_TENSORS_H_
