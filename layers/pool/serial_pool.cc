// Pooling on whole tensors, as PyTorch defines it.
//
// What torch::nn cannot be asked for directly, paddings that differ at the two ends, is made of the same operation on
// an input that is padded before.
#include <torch/nn/functional.h>
#include <torch/types.h>

#include <limits>
#include <string>
#include <tuple>
#include <vector>

#include "layers/serial_functions.h"
#include "layers/serial_windows.h"

namespace adjoin {
namespace {

namespace F = torch::nn::functional;
using torch::Tensor;

// torch.nn.functional's output size, with paddings of the two ends.
int64_t PooledSize(int64_t n, int64_t kernel, int64_t stride, int64_t dilation, int64_t lo, int64_t hi,
                   bool ceil_mode) {
  const int64_t room = n + lo + hi - dilation * (kernel - 1) - 1;
  if (!ceil_mode) return room / stride + 1;
  const int64_t size = (room + stride - 1) / stride + 1;
  return (size - 1) * stride >= n + lo ? size - 1 : size;
}

// `x` with a boundary that is as long as its last windows reach, so that they are pooled without padding or ceil_mode.
Tensor Extended(const Tensor& x, const Windows& w, bool ceil_mode, double fill) {
  Sizes hi;
  for (size_t i = 0; i < w.lo.size(); ++i) {
    const int64_t n = x.size(static_cast<int64_t>(i) + 2);
    const int64_t size = PooledSize(n, w.kernel[i], w.stride[i], w.dilation[i], w.lo[i], w.hi[i], ceil_mode);
    hi.push_back((size - 1) * w.stride[i] + w.dilation[i] * (w.kernel[i] - 1) + 1 - n - w.lo[i]);
  }
  return F::pad(x, F::PadFuncOptions(PadList(w.lo, hi)).value(fill));
}

std::tuple<Tensor, Tensor> MaxWithIndices(const Tensor& x, const Windows& w, const Sizes& padding, bool ceil_mode) {
  switch (w.kernel.size()) {
    case 1: return torch::max_pool1d_with_indices(x, w.kernel, w.stride, padding, w.dilation, ceil_mode);
    case 2: return torch::max_pool2d_with_indices(x, w.kernel, w.stride, padding, w.dilation, ceil_mode);
    default: return torch::max_pool3d_with_indices(x, w.kernel, w.stride, padding, w.dilation, ceil_mode);
  }
}

// Positions in `padded`, which begins `lo` cells before `x`, as positions in `x`.
Tensor WithoutPadding(Tensor position, const Tensor& padded, const Tensor& x, const Sizes& lo) {
  Tensor result = torch::zeros_like(position);
  int64_t stride = 1;
  for (int64_t dim = padded.dim() - 1; dim >= 2; --dim) {
    result = result + (position.remainder(padded.size(dim)) - lo[dim - 2]) * stride;
    position = torch::div(position, padded.size(dim), "floor");
    stride *= x.size(dim);
  }
  return result;
}

Tensor MaxPool(const Tensor& x, const Windows& w, const Pool& spec) {
  const Sizes none(w.kernel.size(), 0);
  if (w.symmetric()) {
    const auto [values, indices] = MaxWithIndices(x, w, w.lo, spec.ceil_mode());
    return spec.return_indices() ? indices : values;
  }
  const Tensor padded = Extended(x, w, spec.ceil_mode(), -std::numeric_limits<double>::infinity());
  const auto [values, indices] = MaxWithIndices(padded, w, none, /*ceil_mode=*/false);
  return spec.return_indices() ? WithoutPadding(indices, padded, x, w.lo) : values;
}

// torch.nn.functional.avg_pool1d has no divisor_override, but avg_pool2d of one row is the same.
Tensor Average(const Tensor& x, const Windows& w, const Sizes& padding, bool ceil_mode, bool count_include_pad,
               c10::optional<int64_t> divisor) {
  if (w.kernel.size() == 3) {
    return torch::avg_pool3d(x, w.kernel, w.stride, padding, ceil_mode, count_include_pad, divisor);
  }
  if (w.kernel.size() == 2) {
    return torch::avg_pool2d(x, w.kernel, w.stride, padding, ceil_mode, count_include_pad, divisor);
  }
  return torch::avg_pool2d(x.unsqueeze(2), {1, w.kernel[0]}, {1, w.stride[0]}, {0, padding[0]}, ceil_mode,
                           count_include_pad, divisor)
      .squeeze(2);
}

Tensor AvgPool(const Tensor& x, const Windows& w, const Pool& spec) {
  const bool include = !spec.has_count_include_pad() || spec.count_include_pad();
  c10::optional<int64_t> divisor;
  if (spec.has_divisor_override()) divisor = spec.divisor_override();
  if (w.symmetric()) return Average(x, w, w.lo, spec.ceil_mode(), include, divisor);
  const Sizes none(w.kernel.size(), 0);
  const auto sums = [&](const Tensor& padded) { return Average(padded, w, none, false, true, 1); };
  const Tensor sum = sums(Extended(x, w, spec.ceil_mode(), 0));
  if (divisor.has_value()) return sum / static_cast<double>(*divisor);
  // How many cells each window counts: those of the input, or those of its padding too, but never those beyond.
  Tensor ones = torch::ones_like(x.detach().narrow(0, 0, 1).narrow(1, 0, 1));
  Windows of = w;
  if (include) {
    ones = F::pad(ones, F::PadFuncOptions(PadList(w.lo, w.hi)).value(1));
    Sizes beyond;
    for (size_t i = 0; i < w.lo.size(); ++i) {
      const int64_t n = x.size(static_cast<int64_t>(i) + 2);
      const int64_t size = PooledSize(n, w.kernel[i], w.stride[i], 1, w.lo[i], w.hi[i], spec.ceil_mode());
      beyond.push_back((size - 1) * w.stride[i] + w.kernel[i] - n - w.lo[i] - w.hi[i]);
    }
    return sum / sums(F::pad(ones, F::PadFuncOptions(PadList(none, beyond))));
  }
  return sum / sums(Extended(ones, of, spec.ceil_mode(), 0));
}

Tensor LpPool(const Tensor& x, const Windows& w, const Pool& spec) {
  TORCH_CHECK(spec.lp() != 0, "lp pooling needs the exponent lp");
  const Sizes none(w.kernel.size(), 0);
  TORCH_CHECK(w.lo == none && w.hi == none, "lp pooling has no padding in PyTorch");
  // torch.nn.functional.lp_pool1d and 2d, word for word; there is none for 3 dims.
  const Tensor mean = Average(x.pow(spec.lp()), w, none, spec.ceil_mode(), true, {});
  double cells = 1;
  for (int64_t kernel : w.kernel) cells *= static_cast<double>(kernel);
  return (torch::sign(mean) * torch::relu(torch::abs(mean))).mul(cells).pow(1 / spec.lp());
}

Tensor AdaptivePool(const Tensor& x, const Pool& spec) {
  const size_t spatial = SpatialDims(x);
  Sizes size = PerDim(spec.adaptive_size(), Sizes(spatial, 1));
  for (size_t i = 0; i < spatial; ++i) {
    if (size[i] == -1) size[i] = x.size(static_cast<int64_t>(i) + 2);
  }
  if (spec.mode() == "avg") {
    if (spatial == 1) return torch::adaptive_avg_pool1d(x, size);
    return spatial == 2 ? torch::adaptive_avg_pool2d(x, size) : torch::adaptive_avg_pool3d(x, size);
  }
  TORCH_CHECK(spec.mode() == "max", "adaptive pooling has no mode \"", spec.mode(), "\"");
  const auto [values, indices] = spatial == 1   ? torch::adaptive_max_pool1d(x, size)
                                 : spatial == 2 ? torch::adaptive_max_pool2d(x, size)
                                                : torch::adaptive_max_pool3d(x, size);
  return spec.return_indices() ? indices : values;
}

}  // namespace

Tensor SerialPool(SerialCall& call) {
  const Pool& spec = call.spec().pool();
  if (!spec.adaptive_size().empty()) return AdaptivePool(call.input(), spec);
  const Windows w = WindowsOf(spec.window(), SpatialDims(call.input()), /*pooling=*/true);
  if (spec.mode() == "max") return MaxPool(call.input(), w, spec);
  TORCH_CHECK(w.dilation == Sizes(w.kernel.size(), 1), "PyTorch's ", spec.mode(), " pooling has no dilation");
  if (spec.mode() == "avg") return AvgPool(call.input(), w, spec);
  TORCH_CHECK(spec.mode() == "lp", "pool.mode \"", spec.mode(), "\" is not known");
  return LpPool(call.input(), w, spec);
}

}  // namespace adjoin
