// What tests of rules share: a rule applied to layouts, as the planner applies it, and readable results.
//
//   const auto outcome = ApplyRule("softmax { dim: 1 }", {Cut({4, 6}, {1, 2})});
//   EXPECT_EQ(ErrorOf(outcome), "");
#ifndef ADJOIN_LAYERS_BUILTIN_RULE_FIXTURE_H_
#define ADJOIN_LAYERS_BUILTIN_RULE_FIXTURE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "layers/rules/layer_rule.h"
#include "primitives/geometry/layout.h"

namespace adjoin {

// float32, cut into `partition` parts over ranks first_rank, first_rank + 1, ...
Layout Cut(const std::vector<int64_t>& shape, const std::vector<int64_t>& partition, Layout::Cuts cuts = {},
           int first_rank = 0);

// The built-in rule of the layer with these fields, as in "y: 'even' softmax { dim: 1 }", for inputs in these layouts.
// `job`: other fields of the job, such as named layouts. Errors: the rule's; kInvalidArgument for text that is no
// layer.
absl::StatusOr<LayerOutcome> ApplyRule(const std::string& layer, const std::vector<Layout>& inputs,
                                       const std::string& job = "", bool training = false);

// The error's message; empty where there is none.
std::string ErrorOf(const absl::StatusOr<LayerOutcome>& outcome);

// The roles in which something moves.
std::vector<std::string> RolesOf(const std::vector<MovementNeed>& movements);

}  // namespace adjoin

#endif  // ADJOIN_LAYERS_BUILTIN_RULE_FIXTURE_H_
