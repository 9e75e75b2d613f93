// What a layer moves on this rank, by role: the plan's movements, and the roles that may stand still.
//
//   ADJOIN_ASSIGN_OR_RETURN(context.roles, RolesOf(plan, program.layer(i), movements));
#ifndef ADJOIN_LAYERS_NETWORK_LAYER_ROLES_H_
#define ADJOIN_LAYERS_NETWORK_LAYER_ROLES_H_

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "layers/role_movements.h"
#include "primitives/movement.h"
#include "proto/plan.pb.h"

namespace adjoin {

// Knows the layer's inputs, its output, its parameters and what its rule moves. `movements`: by index in
// ProgramPlan.op. Errors: kInvalidArgument (a role names an operator that is not there).
absl::StatusOr<std::shared_ptr<RoleMovements>> RolesOf(const Plan& plan, const LayerPlan& layer,
                                                       const std::vector<std::shared_ptr<Movement>>& movements);

}  // namespace adjoin

#endif  // ADJOIN_LAYERS_NETWORK_LAYER_ROLES_H_
