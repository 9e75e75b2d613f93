// The roles of a softmax over a dim that is cut.
#ifndef ADJOIN_LAYERS_POINTWISE_SOFTMAX_ROLES_H_
#define ADJOIN_LAYERS_POINTWISE_SOFTMAX_ROLES_H_

namespace adjoin {

inline constexpr char kRoleMax[] = "max";  // the largest element of each row
inline constexpr char kRoleSum[] = "sum";  // the sum of each row's exponentials

}  // namespace adjoin

#endif  // ADJOIN_LAYERS_POINTWISE_SOFTMAX_ROLES_H_
