// Convolution on whole tensors, as PyTorch defines it.
//
// What torch::nn cannot be asked for directly, paddings that differ at the two ends, is made of the same operation on
// an input that is padded before.
#include <torch/nn/functional.h>
#include <torch/types.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "layers/serial_functions.h"
#include "layers/serial_windows.h"

namespace adjoin {
namespace {

namespace F = torch::nn::functional;
using torch::Tensor;

Tensor Padded(const Tensor& x, const Windows& windows, const std::string& boundary) {
  F::PadFuncOptions options(PadList(windows.lo, windows.hi));
  if (boundary == "circular") return F::pad(x, options.mode(torch::kCircular));
  if (boundary == "reflect") return F::pad(x, options.mode(torch::kReflect));
  if (boundary == "replicate") return F::pad(x, options.mode(torch::kReplicate));
  TORCH_CHECK(boundary.empty() || boundary == "zeros", "boundary \"", boundary, "\" is not known");
  return F::pad(x, options);
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

// LibTorch's own padding of the name; with another boundary, what torch.nn.Conv adds before: half of it, rounded down,
// at the front.
Tensor Same(const Tensor& x, const Tensor& weight, const Tensor& bias, Windows w, const std::string& boundary,
            int64_t groups) {
  const Sizes none(w.kernel.size(), 0);
  if (!boundary.empty() && boundary != "zeros") {
    for (size_t i = 0; i < w.kernel.size(); ++i) {
      const int64_t total = w.dilation[i] * (w.kernel[i] - 1);
      w.lo[i] = total / 2;
      w.hi[i] = total - total / 2;
    }
    return torch::convolution(Padded(x, w, boundary), weight, bias, w.stride, none, w.dilation, false, none, groups);
  }
  switch (w.kernel.size()) {
    case 1: return torch::conv1d(x, weight, bias, w.stride, "same", w.dilation, groups);
    case 2: return torch::conv2d(x, weight, bias, w.stride, "same", w.dilation, groups);
    default: return torch::conv3d(x, weight, bias, w.stride, "same", w.dilation, groups);
  }
}

}  // namespace

Tensor SerialConv(SerialCall& call) {
  const Conv& spec = call.spec().conv();
  const Tensor& x = call.input();
  const Windows w = WindowsOf(spec.window(), SpatialDims(x), /*pooling=*/false);
  const int64_t groups = spec.has_groups() ? spec.groups() : 1, in = x.size(1), out = spec.out_channels();
  TORCH_CHECK(groups > 0 && in % groups == 0 && out % groups == 0, "groups do not divide the channels");
  Sizes shape;
  shape.push_back(spec.transposed() ? in : out);
  shape.push_back((spec.transposed() ? out : in) / groups);
  for (int64_t kernel : w.kernel) shape.push_back(kernel);
  double fan_in = static_cast<double>(shape[1]);
  for (int64_t kernel : w.kernel) fan_in *= static_cast<double>(kernel);
  const double spread = 1 / std::sqrt(std::max(1.0, fan_in));
  const Tensor weight = call.Parameter("weight", shape, spread);
  const Tensor bias = !spec.has_bias() || spec.bias() ? call.Parameter("bias", {out}, spread) : Tensor();
  const Sizes none(w.kernel.size(), 0);
  if (spec.transposed()) return Transposed(x, weight, bias, w, PerDim(spec.output_padding(), none), groups);
  const std::string& boundary = spec.window().boundary();
  if (spec.window().padding() == "same") return Same(x, weight, bias, w, boundary, groups);
  if (w.symmetric() && (boundary.empty() || boundary == "zeros")) {
    return torch::convolution(x, weight, bias, w.stride, w.lo, w.dilation, /*transposed=*/false, none, groups);
  }
  return torch::convolution(Padded(x, w, boundary), weight, bias, w.stride, none, w.dilation, false, none, groups);
}

}  // namespace adjoin
