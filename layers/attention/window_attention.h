// Attention within windows, which may be shifted, as torchvision's ShiftedWindowAttention, of 1, 2 or 3 spatial dims.
//
// The movement "x" brings whole windows of the padded and rolled tensor, all channels of them; the kernel attends within each
// with this rank's heads; "unroll" brings what they return back to where its cells belong, in the input's extents; the
// projection there is a sum over this rank's heads, which "y" completes. Relative positions, and the regions that do not see
// each other where the tensor was rolled around its ends, follow from global places.
// A dropped weight belongs to its place in [batch, windows per dim ..., heads, cells, cells].
// Local shapes: x [n, spatial ..., channels], y alike. Can be differentiated any number of times.
// Errors: kInvalidArgument where the plan's layout is none.
#ifndef ADJOIN_LAYERS_ATTENTION_WINDOW_ATTENTION_H_
#define ADJOIN_LAYERS_ATTENTION_WINDOW_ATTENTION_H_

#include <memory>

#include "absl/status/statusor.h"
#include "layers/layer.h"

namespace adjoin {

absl::StatusOr<std::unique_ptr<LayerModule>> BuildWindowAttention(LayerContext context);

}  // namespace adjoin

#endif  // ADJOIN_LAYERS_ATTENTION_WINDOW_ATTENTION_H_
