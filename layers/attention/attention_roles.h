// The roles of attention. Parameters have their names in the state_dict of torch.nn.MultiheadAttention and of
// torchvision's ShiftedWindowAttention.
#ifndef ADJOIN_LAYERS_ATTENTION_ATTENTION_ROLES_H_
#define ADJOIN_LAYERS_ATTENTION_ATTENTION_ROLES_H_

#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"

namespace adjoin {

inline constexpr char kRoleInProjWeight[] = "in_proj_weight";
inline constexpr char kRoleInProjBias[] = "in_proj_bias";
// In place of in_proj_weight, where keys and values have another number of features than queries.
inline constexpr char kRoleQProjWeight[] = "q_proj_weight";
inline constexpr char kRoleKProjWeight[] = "k_proj_weight";
inline constexpr char kRoleVProjWeight[] = "v_proj_weight";
inline constexpr char kRoleOutProjWeight[] = "out_proj.weight";
inline constexpr char kRoleOutProjBias[] = "out_proj.bias";

// Keys and values of a cut sequence: the part that is `step` further along the ring, from the rank that has it after
// step - 1 steps, for step from 1 on; back to there in the backward pass, for step from 2 on; and its gradient.
inline std::string RingRole(int64_t step) { return absl::StrCat("ring", step); }
inline std::string RingBackRole(int64_t step) { return absl::StrCat("back", step); }
inline std::string RingGradientRole(int64_t step) { return absl::StrCat("gradient", step); }

// Window attention.
inline constexpr char kRoleQkvWeight[] = "qkv.weight";
inline constexpr char kRoleQkvBias[] = "qkv.bias";
inline constexpr char kRoleProjWeight[] = "proj.weight";
inline constexpr char kRoleProjBias[] = "proj.bias";
inline constexpr char kRolePositionBias[] = "relative_position_bias_table";
inline constexpr char kRoleUnroll[] = "unroll";  // from windows to the cells where they belong

}  // namespace adjoin

#endif  // ADJOIN_LAYERS_ATTENTION_ATTENTION_ROLES_H_
