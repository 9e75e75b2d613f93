// A plan's operator made into the movement that runs it.
//
//   ADJOIN_ASSIGN_OR_RETURN(std::shared_ptr<Movement> sync, CreateMovement(plan.parameter(0).sync(), &communicator));
#ifndef ADJOIN_LAYERS_NETWORK_OPERATORS_H_
#define ADJOIN_LAYERS_NETWORK_OPERATORS_H_

#include <memory>

#include "absl/status/statusor.h"
#include "primitives/comm/communicator.h"
#include "primitives/movement.h"
#include "proto/plan.pb.h"

namespace adjoin {

// `sends_ahead`: as Movement::Options. Errors: kInvalidArgument, with the operator's name (as DistributionsOf and
// Movement::Create).
absl::StatusOr<std::shared_ptr<Movement>> CreateMovement(const OperatorPlan& op, Communicator* communicator,
                                                         bool sends_ahead = false);

}  // namespace adjoin

#endif  // ADJOIN_LAYERS_NETWORK_OPERATORS_H_
