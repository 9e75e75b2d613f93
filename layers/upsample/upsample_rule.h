// Upsampling (torch.nn.Upsample) over 1, 2 or 3 spatial dims, in any cut of any dim, the channels included.
//
// The ranks fetch the boxes that their outputs are interpolated from (primitives/geometry/interpolation.h). The output
// is cut in batch and channels as the input, in the spatial dims evenly unless y says otherwise. Modes also shrink. The
// mode "area" is adaptive average pooling and nothing else.
#ifndef ADJOIN_LAYERS_UPSAMPLE_UPSAMPLE_RULE_H_
#define ADJOIN_LAYERS_UPSAMPLE_UPSAMPLE_RULE_H_

#include <cstdint>
#include <map>
#include <vector>

#include "absl/status/statusor.h"
#include "layers/rules/layer_rule.h"
#include "primitives/geometry/dtype.h"
#include "primitives/geometry/interpolation.h"
#include "proto/job.pb.h"

namespace adjoin {

inline constexpr char kAreaMode[] = "area";

// What the mode "area" is, for outputs of these extents in the spatial dims.
Pool AreaAsPool(const std::vector<int64_t>& outputs);

// By tensor dim, from 2: what `spec` says of an input of the global shape [batch, channel, 1 to 3 spatial dims]. The
// rule and the local kernel both have it from here.
// Errors: kInvalidArgument, at fields of Upsample (an unknown mode, and "area"; one for another number of dims; size
// and scale both or neither, with another number of values, or with values that leave nothing; align_corners with a
// nearest mode).
absl::StatusOr<std::map<int, Interpolation>> InterpolationsOf(const Upsample& spec, const std::vector<int64_t>& input,
                                                              DType dtype);

}  // namespace adjoin

#endif  // ADJOIN_LAYERS_UPSAMPLE_UPSAMPLE_RULE_H_
