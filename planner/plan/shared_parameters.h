// Whether a layer can use the parameters of another one (Layer.weights_of), from what the two rules say of them.
//
//   ADJOIN_RETURN_IF_ERROR(CheckSharedParameters("embedding", of_embedding.parameter, of_head.parameter));
//   const ParameterNeed& weight = *FindNeed(of_embedding.parameter, "weight");
//   // weight.home: where both read it from
#ifndef ADJOIN_PLANNER_PLAN_SHARED_PARAMETERS_H_
#define ADJOIN_PLANNER_PLAN_SHARED_PARAMETERS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "layers/rules/layer_rule.h"

namespace adjoin {

// `owned`: of the layer `owner`; `needed`: of the one that uses them; `updates_buffers`: layers of this kind change
// their buffers, as running statistics.
// Errors: kInvalidArgument where `needed` is empty, holds such buffers, or has other roles or shapes than `owned`; the
// message names both.
absl::Status CheckSharedParameters(const std::string& owner, const std::vector<ParameterNeed>& owned,
                                   const std::vector<ParameterNeed>& needed, bool updates_buffers);

// Null where there is none of the role.
const ParameterNeed* FindNeed(const std::vector<ParameterNeed>& needs, absl::string_view role);

}  // namespace adjoin

#endif  // ADJOIN_PLANNER_PLAN_SHARED_PARAMETERS_H_
