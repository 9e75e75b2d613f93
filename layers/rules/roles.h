// Roles: what a movement or a parameter is for in a layer. A rule names its roles, the plan carries them, and the layer
// asks for them by the same names. A family's own roles are in its *_roles.h; both sides use these names, and a layer
// that asks for an unknown role, or leaves one out, fails by name (layers/role_movements.h).
#ifndef ADJOIN_LAYERS_RULES_ROLES_H_
#define ADJOIN_LAYERS_RULES_ROLES_H_

#include <string>

#include "absl/strings/str_cat.h"

namespace adjoin {

inline constexpr char kRoleInput[] = "x";   // brings the first input
inline constexpr char kRoleOutput[] = "y";  // from LayerOutcome::compute to LayerOutcome::output
inline constexpr char kRoleWeight[] = "weight";
inline constexpr char kRoleBias[] = "bias";

// "x", "x1", "x2", ...: brings input `index` to where the layer reads it.
inline std::string InputRole(int index) { return index == 0 ? kRoleInput : absl::StrCat(kRoleInput, index); }

}  // namespace adjoin

#endif  // ADJOIN_LAYERS_RULES_ROLES_H_
