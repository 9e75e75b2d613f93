// The role that rule and layer of "sharpen" share: each names it by this constant.
#ifndef ADJOIN_EXAMPLES_CUSTOM_LAYER_SHARPEN_ROLES_H_
#define ADJOIN_EXAMPLES_CUSTOM_LAYER_SHARPEN_ROLES_H_

namespace adjoin {

inline constexpr char kRoleAmount[] = "amount";  // [channels]: how much each channel is sharpened

}  // namespace adjoin

#endif  // ADJOIN_EXAMPLES_CUSTOM_LAYER_SHARPEN_ROLES_H_
