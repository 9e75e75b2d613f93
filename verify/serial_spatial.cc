#include "verify/serial_spatial.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <tuple>
#include <vector>

namespace adjoin {
namespace {

namespace F = torch::nn::functional;
using torch::Tensor;
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

Windows WindowsOf(const WindowSpec& spec, size_t spatial, bool pooling) {
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
Sizes PadList(const Sizes& lo, const Sizes& hi) {
  Sizes list;
  for (size_t i = lo.size(); i-- > 0;) list.insert(list.end(), {lo[i], hi[i]});
  return list;
}

Tensor Padded(const Tensor& x, const Windows& windows, const std::string& boundary) {
  F::PadFuncOptions options(PadList(windows.lo, windows.hi));
  if (boundary == "circular") return F::pad(x, options.mode(torch::kCircular));
  if (boundary == "reflect") return F::pad(x, options.mode(torch::kReflect));
  if (boundary == "replicate") return F::pad(x, options.mode(torch::kReplicate));
  TORCH_CHECK(boundary.empty() || boundary == "zeros", "boundary \"", boundary, "\" is not known");
  return F::pad(x, options);
}

size_t SpatialDims(const Tensor& x) {
  TORCH_CHECK(x.dim() >= 3 && x.dim() <= 5, "it reads [batch, channel, 1 to 3 spatial dims]");
  return static_cast<size_t>(x.dim() - 2);
}

Tensor Transposed(const Tensor& x, const Tensor& weight, const Tensor& bias, const Windows& w,
                  const Sizes& output_padding, int64_t groups) {
  const Sizes none(w.kernel.size(), 0);
  if (w.symmetric() && *std::min_element(w.lo.begin(), w.lo.end()) >= 0) {
    return torch::convolution(x, weight, bias, w.stride, w.lo, w.dilation, /*transposed=*/true, output_padding, groups);
  }
  // Padding cuts off the ends of the whole result, and output padding gives some of it back.
  const Tensor whole = torch::convolution(x, weight, {}, w.stride, none, w.dilation, true, none, groups);
  Sizes lo, hi;
  for (size_t i = 0; i < w.lo.size(); ++i) {
    lo.push_back(-w.lo[i]);
    hi.push_back(output_padding[i] - w.hi[i]);
  }
  const Tensor y = F::pad(whole, F::PadFuncOptions(PadList(lo, hi)));
  if (!bias.defined()) return y;
  Sizes shape(x.dim(), 1);
  shape[1] = -1;
  return y + bias.reshape(shape);
}

// ---------------------------------------------------------------------------------------------------------------------
// Pooling

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

// ---------------------------------------------------------------------------------------------------------------------
// Upsampling

Tensor Interpolate(const Tensor& x, const Upsample& spec) {
  const size_t spatial = SpatialDims(x);
  F::InterpolateFuncOptions options;
  if (spec.size().empty()) {
    std::vector<double> scale(spec.scale().begin(), spec.scale().end());
    if (scale.size() == 1) scale.assign(spatial, scale[0]);
    options.scale_factor(scale).recompute_scale_factor(false);
  } else {
    options.size(PerDim(spec.size(), Sizes(spatial, 0)));
  }
  if (spec.mode() == "nearest") return F::interpolate(x, options.mode(torch::kNearest));
  options.align_corners(spec.align_corners());
  if (spec.mode() == "linear") return F::interpolate(x, options.mode(torch::kLinear));
  if (spec.mode() == "bilinear") return F::interpolate(x, options.mode(torch::kBilinear));
  if (spec.mode() == "trilinear") return F::interpolate(x, options.mode(torch::kTrilinear));
  TORCH_CHECK(spec.mode() == "bicubic", "upsample.mode \"", spec.mode(), "\" is not known");
  return F::interpolate(x, options.mode(torch::kBicubic));
}

bool GradientIsAdjoint(const Tensor& x, const Upsample& spec) {
  torch::AutoGradMode with_grad(true);
  const Tensor leaf = torch::rand_like(x).requires_grad_();
  const Tensor y = Interpolate(leaf, spec);
  const Tensor cotangent = torch::rand_like(y);
  const Tensor back = torch::autograd::grad({y}, {leaf}, {cotangent})[0];
  const double forward = (y.detach() * cotangent).sum().item<double>();
  return std::abs(forward - (leaf.detach() * back).sum().item<double>()) <= 1e-12 * std::max(1.0, std::abs(forward));
}

// Which cell of the spatial dims, flattened, each output is a copy of.
Tensor NearestCells(const Tensor& x, const Upsample& spec) {
  torch::NoGradGuard no_grad;
  Sizes shape(x.sizes().begin(), x.sizes().end());
  shape[0] = 1;
  int64_t cells = 1;
  for (size_t dim = 2; dim < shape.size(); ++dim) cells *= shape[dim];
  Sizes one = shape;
  one[1] = 1;
  // As many channels as the input has: LibTorch reads a single one by other rules than several.
  const Tensor numbered = torch::arange(cells, torch::kFloat64).reshape(one).expand(shape).contiguous();
  return Interpolate(numbered, spec).select(1, 0).select(0, 0).to(torch::kInt64);
}

// What each of the two dims does to unit vectors: LibTorch interpolates one dim after the other.
Tensor OneDimOfBicubic(const Tensor& x, const Upsample& spec, int dim) {
  torch::NoGradGuard no_grad;
  const int64_t n = x.size(dim + 2);
  Upsample one = spec;
  one.clear_size();
  one.clear_scale();
  for (int other = 0; other < 2; ++other) {
    const auto value = [other](const auto& list) { return list.Get(list.size() == 1 ? 0 : other); };
    if (spec.size().empty()) {
      one.add_scale(other == dim ? value(spec.scale()) : 1);
    } else {
      one.add_size(other == dim ? value(spec.size()) : 1);
    }
  }
  const Tensor units = torch::eye(n, torch::kFloat64).reshape(dim == 0 ? Sizes{n, 1, n, 1} : Sizes{n, 1, 1, n});
  return Interpolate(units, one).reshape({n, -1});
}

}  // namespace

Tensor SerialConv(SerialCall& call) {
  const Conv& spec = call.spec().conv();
  const Tensor& x = call.input();
  const Windows w = WindowsOf(spec.window(), SpatialDims(x), /*pooling=*/false);
  const int64_t groups = spec.has_groups() ? spec.groups() : 1, in = x.size(1), out = spec.out_channels();
  TORCH_CHECK(groups > 0 && in % groups == 0 && out % groups == 0, "groups do not divide the channels");
  Sizes shape = spec.transposed() ? Sizes{in, out / groups} : Sizes{out, in / groups};
  shape.insert(shape.end(), w.kernel.begin(), w.kernel.end());
  double fan_in = static_cast<double>(shape[1]);
  for (int64_t kernel : w.kernel) fan_in *= static_cast<double>(kernel);
  const double spread = 1 / std::sqrt(std::max(1.0, fan_in));
  const Tensor weight = call.Parameter("weight", shape, spread);
  const Tensor bias = !spec.has_bias() || spec.bias() ? call.Parameter("bias", {out}, spread) : Tensor();
  const Sizes none(w.kernel.size(), 0);
  if (spec.transposed()) return Transposed(x, weight, bias, w, PerDim(spec.output_padding(), none), groups);
  const std::string& boundary = spec.window().boundary();
  if (w.symmetric() && (boundary.empty() || boundary == "zeros")) {
    return torch::convolution(x, weight, bias, w.stride, w.lo, w.dilation, /*transposed=*/false, none, groups);
  }
  return torch::convolution(Padded(x, w, boundary), weight, bias, w.stride, none, w.dilation, false, none, groups);
}

Tensor SerialPad(SerialCall& call) {
  const Shape& spec = call.spec().pad();
  return F::pad(call.input(), F::PadFuncOptions({spec.arg().begin(), spec.arg().end()}));
}

Tensor SerialCrop(SerialCall& call) {
  Sizes less;
  for (int64_t cells : call.spec().crop().arg()) less.push_back(-cells);
  return F::pad(call.input(), F::PadFuncOptions(less));
}

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

Tensor SerialUpsample(SerialCall& call) {
  const Upsample& spec = call.spec().upsample();
  const Tensor& x = call.input();
  if (!x.requires_grad() || GradientIsAdjoint(x, spec)) return Interpolate(x, spec);
  if (spec.mode() == "nearest") {
    const Tensor cells = NearestCells(x, spec);
    Sizes shape = {x.size(0), x.size(1)};
    shape.insert(shape.end(), cells.sizes().begin(), cells.sizes().end());
    return x.flatten(2).index_select(2, cells.flatten()).reshape(shape);
  }
  TORCH_CHECK(spec.mode() == "bicubic", "LibTorch's gradient of ", spec.mode(),
              " is not the adjoint of its forward pass");
  const Tensor rows = torch::matmul(x, OneDimOfBicubic(x, spec, 1));
  return torch::matmul(rows.transpose(2, 3), OneDimOfBicubic(x, spec, 0)).transpose(2, 3).contiguous();
}

}  // namespace adjoin
