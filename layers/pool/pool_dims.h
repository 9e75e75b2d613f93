// The windows of a pooling on one rank, dim by dim: what of the input each of its outputs is made of.
//
//   for (const PoolDim& dim : *PoolDimsOf(context)) {
//     dim.windows[0];   // {-1, 2}: the rank's first output reads inputs 0 and 1, and the padding before them
//     dim.box;          // {-1, 4}: what the local tensor holds of this dim
//   }
#ifndef ADJOIN_LAYERS_POOL_POOL_DIMS_H_
#define ADJOIN_LAYERS_POOL_POOL_DIMS_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "layers/layer.h"
#include "primitives/geometry/box.h"

namespace adjoin {

struct PoolDim {
  int dim = 0;                    // a dim of the tensor
  int64_t inputs = 0;             // global extent
  Interval box;                   // global indices that the local tensor holds; beyond [0, inputs) is padding
  std::vector<Interval> windows;  // per output of this rank
  int64_t kernel = 0;             // 0: the windows differ, or are of an uneven distance
  int64_t stride = 1;
  int64_t dilation = 1;
  int64_t pad_hi = 0;
  bool own_part = false;  // the only window is this rank's part of the dim: none where that is empty
};

// The spatial dims, in order. Of an adaptive pooling whose outputs divide the inputs evenly, the windows are ordinary
// ones. Errors: kInvalidArgument for a plan that does not say what is read.
absl::StatusOr<std::vector<PoolDim>> PoolDimsOf(const LayerContext& context);

// Whether they all have a kernel.
bool HaveKernels(const std::vector<PoolDim>& dims);

}  // namespace adjoin

#endif  // ADJOIN_LAYERS_POOL_POOL_DIMS_H_
