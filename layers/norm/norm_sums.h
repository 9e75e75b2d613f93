// The layout of the sums of a normalisation that is no batch normalisation: one number for each set of elements that
// are normalised together.
//
//   // Group norm of [batch, channels, ...] cut in depth: every rank adds up its own cells of each group.
//   ADJOIN_ASSIGN_OR_RETURN(Layout own, NormSums(x, norm, Placement::Partial()));      // [batch, groups], P(sum)
//   ADJOIN_ASSIGN_OR_RETURN(Layout whole, NormSums(x, norm, Placement::Broadcast()));  // on every rank that needs it
//
// The rule moves sums between these two, and the builder makes tensors of their local shapes.
#ifndef ADJOIN_LAYERS_NORM_NORM_SUMS_H_
#define ADJOIN_LAYERS_NORM_NORM_SUMS_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "primitives/geometry/layout.h"
#include "proto/job.pb.h"

namespace adjoin {

inline constexpr int kChannelDim = 1;

// Whether the kind normalises over groups of channels and all dims after them: "group" and "instance", where each
// channel is a group. Else ("layer", "rms") over the last dims.
bool NormalisesGroups(const Norm& norm);
// How many sets a sample of [batch, channels, ...] has: norm.groups, or the channels.
int64_t GroupsOf(const Norm& norm, const Layout& x);

// In float64, on the mesh of `x`; `along` on the axes that cut a set. "layer" and "rms" (norm.dim ascending, from 0):
// x's shape with 1 in the normalised dims, cut as x elsewhere. "group" and "instance": [batch, groups]; the axes that
// cut the channels cut the groups where each cut is between two groups, else they cut sets: a rank has zeros for groups
// of which it holds no channel. Errors: as Layout::Create.
absl::StatusOr<Layout> NormSums(const Layout& x, const Norm& norm, Placement along);

}  // namespace adjoin

#endif  // ADJOIN_LAYERS_NORM_NORM_SUMS_H_
