// The roles of a convolution that exchanges the edges of its parts alone: "edges2", "edges3", ...
#ifndef ADJOIN_LAYERS_CONV_EDGE_ROLES_H_
#define ADJOIN_LAYERS_CONV_EDGE_ROLES_H_

#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace adjoin {

inline constexpr char kEdgeRolePrefix[] = "edges";

// The halo in tensor dim `dim`.
inline std::string EdgeRole(int dim) { return absl::StrCat(kEdgeRolePrefix, dim); }

inline bool IsEdgeRole(absl::string_view role) { return absl::StartsWith(role, kEdgeRolePrefix); }

}  // namespace adjoin

#endif  // ADJOIN_LAYERS_CONV_EDGE_ROLES_H_
