// What convolution and pooling read: windows over the spatial dims, from the spec's per-dim lists.
//
//   ADJOIN_ASSIGN_OR_RETURN(WindowedDims dims,
//                           WindowsOf(spec.window(), x.shape(), /*pooling=*/false, /*ceil_mode=*/false));
//   dims.windows;     // {2: kernel 5 padding 2,2; 3: likewise}
//   dims.outputs;     // output extents of the spatial dims
#ifndef ADJOIN_LAYERS_RULES_WINDOWED_H_
#define ADJOIN_LAYERS_RULES_WINDOWED_H_

#include <cstdint>
#include <map>
#include <vector>

#include "absl/status/statusor.h"
#include "primitives/geometry/reading.h"
#include "proto/job.pb.h"

namespace adjoin {

struct WindowedDims {
  std::map<int, Reading> windows;  // by tensor dim, from 2
  std::vector<int64_t> outputs;    // per spatial dim
  WindowSpec filled;               // one value per spatial dim in every list; `padding` has become pad_lo and pad_hi
};

// `input` is [batch, channel, 1 to 3 spatial dims]. For pooling the stride is the kernel by default.
// Errors: kInvalidArgument and kUnimplemented, at fields of WindowSpec.
absl::StatusOr<WindowedDims> WindowsOf(const WindowSpec& spec, const std::vector<int64_t>& input, bool pooling,
                                       bool ceil_mode);
// The same for a transposed convolution, with its output padding. Errors: at fields of Conv.
absl::StatusOr<WindowedDims> TransposedWindowsOf(const Conv& spec, const std::vector<int64_t>& input);

}  // namespace adjoin

#endif  // ADJOIN_LAYERS_RULES_WINDOWED_H_
