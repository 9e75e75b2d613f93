// The roles of a maximum over dims that are cut and pooled to one element.
#ifndef ADJOIN_LAYERS_POOL_POOL_ROLES_H_
#define ADJOIN_LAYERS_POOL_POOL_ROLES_H_

namespace adjoin {

inline constexpr char kRoleLargest[] = "largest";      // the largest element of each part
inline constexpr char kRolePositions[] = "positions";  // its row-major index in the input's spatial dims

}  // namespace adjoin

#endif  // ADJOIN_LAYERS_POOL_POOL_ROLES_H_
