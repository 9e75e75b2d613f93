// What convolution and pooling share: windows over the spatial dims, from the spec's per-dim lists.
//
//   ADJOIN_ASSIGN_OR_RETURN(WindowedDims dims,
//                           WindowsOf(spec.window(), x.shape(), /*pooling=*/false, /*ceil_mode=*/false));
//   dims.windows;     // {2: kernel 5 padding 2,2; 3: likewise}
//   dims.outputs;     // output extents of the spatial dims
#ifndef ADJOIN_LAYERS_PLAN_WINDOWED_H_
#define ADJOIN_LAYERS_PLAN_WINDOWED_H_

#include <cstdint>
#include <map>
#include <vector>

#include "absl/status/statusor.h"
#include "layers/plan/layer_rule.h"
#include "primitives/geometry/layout.h"
#include "primitives/geometry/reading.h"
#include "proto/job.pb.h"

namespace adjoin {

struct WindowedDims {
  std::map<int, Reading> windows;  // by tensor dim, from 2
  std::vector<int64_t> outputs;   // per spatial dim
  WindowSpec filled;              // one value per spatial dim in every list
};

// `input` is [batch, channel, 1 to 3 spatial dims]. For pooling the stride is the kernel by default.
// Errors: kInvalidArgument and kUnimplemented, at fields of WindowSpec.
absl::StatusOr<WindowedDims> WindowsOf(const WindowSpec& spec, const std::vector<int64_t>& input, bool pooling,
                                       bool ceil_mode);

// Layouts of the result: `compute`, on the input's mesh with the input's placements, as the halo exchange needs it, and
// `output`. They are the same unless Layer.y names a layout that no halo exchange leads to.
struct WindowedLayouts {
  Layout compute;
  Layout output;
};
// `shape`: of the output. Spatial dims are cut evenly unless y says otherwise.
absl::StatusOr<WindowedLayouts> LayoutsOf(const LayerRequest& request, const std::map<int, Reading>& windows,
                                          const std::vector<int64_t>& shape);

}  // namespace adjoin

#endif  // ADJOIN_LAYERS_PLAN_WINDOWED_H_
