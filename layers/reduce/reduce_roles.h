// The roles of `reduce`'s movements, which its rule and its builder share.
#ifndef ADJOIN_LAYERS_REDUCE_REDUCE_ROLES_H_
#define ADJOIN_LAYERS_REDUCE_REDUCE_ROLES_H_

namespace adjoin {

// For "var": the mean, of which each rank has made its part.
inline constexpr char kRoleMean[] = "mean";
// For "amax" and "amin" (of which the negative is the largest): the largest element, and how many are equal to it.
inline constexpr char kRoleExtreme[] = "extreme";
inline constexpr char kRoleTies[] = "ties";

}  // namespace adjoin

#endif  // ADJOIN_LAYERS_REDUCE_REDUCE_ROLES_H_
