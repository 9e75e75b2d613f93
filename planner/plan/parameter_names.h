// What a layer's parameters are called: "<layer>.<role>", or as Layer.parameter_name says.
//
//   ADJOIN_RETURN_IF_ERROR(CheckParameterNames(layer, outcome.parameter));
//   ParameterName(layer, "weight");             // "conv1.weight"; with parameter_name, for example "class_token"
#ifndef ADJOIN_PLANNER_PLAN_PARAMETER_NAMES_H_
#define ADJOIN_PLANNER_PLAN_PARAMETER_NAMES_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "layers/rules/layer_rule.h"
#include "proto/job.pb.h"

namespace adjoin {

std::string ParameterName(const Layer& layer, const std::string& role);

// `needs`: the layer's parameters. Errors: kInvalidArgument at "parameter_name" for a role that the layer does not
// have, and for a name that is empty or has other characters than a layer's name may have; the message lists the roles.
absl::Status CheckParameterNames(const Layer& layer, const std::vector<ParameterNeed>& needs);

}  // namespace adjoin

#endif  // ADJOIN_PLANNER_PLAN_PARAMETER_NAMES_H_
