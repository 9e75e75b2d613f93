// What Layer.init can say of how a weight is drawn, and what it comes to for a weight's shape.
//
//   ADJOIN_RETURN_IF_ERROR(CheckInit(layer.init(), {16, 1, 5, 5}));
//   Spread(layer.init(), {16, 1, 5, 5});     // {kNormal, 0.28...} for "kaiming_normal"
//
// Names and formulas are torch.nn.init's, fan_in and fan_out those of its weights: [out, in, kernel...] whatever the
// layer makes of them. Pure; any thread.
#ifndef ADJOIN_LAYERS_RULES_INIT_RULE_H_
#define ADJOIN_LAYERS_RULES_INIT_RULE_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "proto/job.pb.h"

namespace adjoin {

// `shape`: the weight's, global. Errors: kInvalidArgument and kUnimplemented, at fields of Init.
absl::Status CheckInit(const Init& init, const std::vector<int64_t>& shape);

// Whether the row `init.value()` of the weight is 0, whatever else is drawn.
bool HasPadding(const Init& init);

// How elements that are drawn lie: around `center`, uniformly within `scale` on both sides, or normally with the
// standard deviation `scale`, of kTruncatedNormal cut off at -2 and 2.
struct InitSpread {
  enum class Kind { kNotDrawn, kUniform, kNormal, kTruncatedNormal };
  Kind kind = Kind::kNotDrawn;
  double scale = 0;
  double center = 0;
};

// `init` has passed CheckInit.
InitSpread Spread(const Init& init, const std::vector<int64_t>& shape);

}  // namespace adjoin

#endif  // ADJOIN_LAYERS_RULES_INIT_RULE_H_
