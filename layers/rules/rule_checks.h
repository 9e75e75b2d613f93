// What several layers' rules ask of their input, their output and their parameters, in one wording.
#ifndef ADJOIN_LAYERS_RULES_RULE_CHECKS_H_
#define ADJOIN_LAYERS_RULES_RULE_CHECKS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "layers/rules/layer_rule.h"
#include "primitives/geometry/layout.h"
#include "primitives/geometry/shape_text.h"

namespace adjoin {

// The greatest number of elements of one tensor, 64 GiB of float32 on each of 4096 ranks: bytes, also of a copy on
// every rank, and sums of a few tensors stay within 64 bits.
inline constexpr int64_t kMaxElements = int64_t{1} << 46;
// The most dims of a tensor that a job makes.
inline constexpr int kMaxDims = 16;
// Errors: kInvalidArgument above kMaxDims.
absl::Status CheckDims(int64_t dims);
// The product of the extents, which are not negative. Errors: kInvalidArgument above kMaxElements.
absl::StatusOr<int64_t> CheckedVolume(const std::vector<int64_t>& shape);

// Errors: kInvalidArgument unless there is one input, of numbers of any type.
absl::Status CheckOneInput(const LayerRequest& request);
// Errors: kInvalidArgument unless there is one input, of floating-point numbers.
absl::Status CheckOneFloatInput(const LayerRequest& request);
// Errors: kInvalidArgument unless there are two inputs or more, all of one type of floating-point numbers.
absl::Status CheckFloatInputs(const LayerRequest& request);
// A dim of a tensor of `dims` dims, negative ones counted from the last. Errors: kInvalidArgument, at `field`.
absl::StatusOr<int> CheckedDim(absl::string_view field, int64_t dim, int dims);
// Errors: kInvalidArgument where the layer has no parameters but says something of them (w, home, owner, frozen).
absl::Status CheckNoParameters(const Layer& spec);

// The layout of Layer.y for an output of `shape`, or `otherwise` where y is absent.
absl::StatusOr<Layout> OutputLayout(const LayerRequest& request, const std::vector<int64_t>& shape,
                                    const Layout& otherwise);

// Where a parameter lives that the ranks of `needed` use whole or in parts. `by_default` is the home of HOME_DEFAULT;
// the first of `ranks`, those that take part in the layer, owns it where the spec names none. Any rank may be named.
// Errors: kInvalidArgument (an owner without home OWNER).
absl::StatusOr<Layout> HomeOf(const Layer& spec, const Layout& needed, const Layout& by_default,
                              const std::vector<int>& ranks);

}  // namespace adjoin

#endif  // ADJOIN_LAYERS_RULES_RULE_CHECKS_H_
