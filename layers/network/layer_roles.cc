#include "layers/network/layer_roles.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "layers/rules/roles.h"

namespace adjoin {

absl::StatusOr<std::shared_ptr<RoleMovements>> RolesOf(const Plan& plan, const LayerPlan& layer,
                                                       const std::vector<std::shared_ptr<Movement>>& movements) {
  auto roles = std::make_shared<RoleMovements>(absl::StrCat("layer \"", layer.name(), "\""));
  for (int i = 0; i < layer.input_size(); ++i) roles->Add(InputRole(i));
  roles->Add(kRoleOutput);
  for (const std::string& role : layer.role()) roles->Add(role);
  for (const ParameterUse& use : layer.parameter()) {
    // A layer may leave its own state alone, as batch normalisation does in evaluation.
    roles->Add(use.role(), nullptr, /*required=*/!plan.parameter(use.index()).buffer());
  }
  for (const OperatorUse& use : layer.op()) {
    if (use.index() >= movements.size()) {
      return absl::InvalidArgumentError(absl::StrCat("layer \"", layer.name(), "\": role \"", use.role(),
                                                     "\" names operator ", use.index(), " of ", movements.size()));
    }
    roles->Add(use.role(), movements[use.index()]);
  }
  return roles;
}

}  // namespace adjoin
