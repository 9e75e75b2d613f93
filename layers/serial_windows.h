// The window of a convolution or pooling as the serial functions read it from a job's text: one value per spatial dim.
#ifndef ADJOIN_LAYERS_SERIAL_WINDOWS_H_
#define ADJOIN_LAYERS_SERIAL_WINDOWS_H_

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

#include "proto/job.pb.h"

namespace adjoin {

using Sizes = std::vector<int64_t>;

// One value for every spatial dim, or one for each; `absent` where the list is empty.
template <typename List>
Sizes PerDim(const List& list, const Sizes& absent) {
  if (list.empty()) return absent;
  if (list.size() == 1) return Sizes(absent.size(), list.Get(0));
  TORCH_CHECK(list.size() == static_cast<int>(absent.size()), "a list of ", list.size(), " values for ", absent.size(),
              " spatial dims");
  return Sizes(list.begin(), list.end());
}

struct Windows {
  Sizes kernel, stride, dilation, lo, hi;
  bool symmetric() const { return lo == hi; }
};

// Throws c10::Error for a list of another length than the spatial dims. `pooling`: the stride is the kernel by default.
inline Windows WindowsOf(const WindowSpec& spec, size_t spatial, bool pooling) {
  TORCH_CHECK(!spec.kernel().empty(), "window.kernel is missing");
  Windows windows;
  windows.kernel = PerDim(spec.kernel(), Sizes(spatial, 1));
  windows.stride = PerDim(spec.stride(), pooling ? windows.kernel : Sizes(spatial, 1));
  windows.dilation = PerDim(spec.dilation(), Sizes(spatial, 1));
  windows.lo = PerDim(spec.pad_lo(), Sizes(spatial, 0));
  windows.hi = PerDim(spec.pad_hi(), windows.lo);
  return windows;
}

// As torch.nn.functional.pad wants them: the last dim first.
inline Sizes PadList(const Sizes& lo, const Sizes& hi) {
  Sizes list;
  for (size_t i = lo.size(); i-- > 0;) list.insert(list.end(), {lo[i], hi[i]});
  return list;
}

// Throws c10::Error where `x` is not [batch, channel, 1 to 3 spatial dims].
inline size_t SpatialDims(const at::Tensor& x) {
  TORCH_CHECK(x.dim() >= 3 && x.dim() <= 5, "it reads [batch, channel, 1 to 3 spatial dims]");
  return static_cast<size_t>(x.dim() - 2);
}

}  // namespace adjoin

#endif  // ADJOIN_LAYERS_SERIAL_WINDOWS_H_
