#include "layers/conv/conv_cases.h"

#include <torch/nn/functional.h>
#include <torch/types.h>
#include <algorithm>

#include <torch/torch.h>

#include "absl/strings/str_cat.h"

namespace adjoin {
namespace {

namespace F = torch::nn::functional;

// As torch.nn.functional.pad: last dim first.
std::vector<int64_t> PadList(const std::vector<int64_t>& lo, const std::vector<int64_t>& hi) {
  std::vector<int64_t> list;
  for (size_t i = lo.size(); i-- > 0;) {
    list.push_back(lo[i]);
    list.push_back(hi[i]);
  }
  return list;
}

torch::Tensor Padded(const torch::Tensor& x, const ConvCase& conv) {
  F::PadFuncOptions options(PadList(conv.pad_lo, conv.pad_hi));
  if (conv.boundary == "circular") options.mode(torch::kCircular);
  if (conv.boundary == "reflect") options.mode(torch::kReflect);
  if (conv.boundary == "replicate") options.mode(torch::kReplicate);
  return F::pad(x, options);
}

torch::Tensor ConvTranspose(const torch::Tensor& x, const torch::Tensor& weight, const torch::Tensor& bias,
                            const ConvCase& c, const std::vector<int64_t>& padding,
                            const std::vector<int64_t>& output_padding) {
  switch (c.kernel.size()) {
    case 1: return torch::conv_transpose1d(x, weight, bias, c.stride, padding, output_padding, c.groups, c.dilation);
    case 2: return torch::conv_transpose2d(x, weight, bias, c.stride, padding, output_padding, c.groups, c.dilation);
    default: return torch::conv_transpose3d(x, weight, bias, c.stride, padding, output_padding, c.groups, c.dilation);
  }
}

}  // namespace

void ConvCase::AddDim(int64_t k, int64_t s, int64_t d, int64_t lo, int64_t hi, int64_t extra) {
  kernel.push_back(k);
  stride.push_back(s);
  dilation.push_back(d);
  pad_lo.push_back(lo);
  pad_hi.push_back(hi);
  output_padding.push_back(extra);
}

int64_t ConvCase::OutputSize(int i, int64_t n) const {
  const int64_t reach = dilation[i] * (kernel[i] - 1) + 1;
  if (transposed) return (n - 1) * stride[i] - pad_lo[i] - pad_hi[i] + reach + output_padding[i];
  const int64_t padding = std::max(pad_lo[i], pad_hi[i]);
  if (boundary == "circular" && padding > n) return 0;
  if (boundary == "reflect" && padding > n - 1) return 0;
  const int64_t room = n + pad_lo[i] + pad_hi[i] - reach;
  return room < 0 ? 0 : room / stride[i] + 1;
}

std::vector<int64_t> ConvCase::WeightShape() const {
  std::vector<int64_t> shape =
      transposed ? std::vector<int64_t>{in, out / groups} : std::vector<int64_t>{out, in / groups};
  for (int64_t k : kernel) shape.push_back(k);
  return shape;
}

std::string ConvCase::Text() const {
  return absl::StrCat("conv { out_channels: ", out, " groups: ", groups, " bias: ", bias ? "true" : "false",
                      transposed ? absl::StrCat(" transposed: true output_padding: ", ListText(output_padding)) : "",
                      " window { kernel: ", ListText(kernel), " stride: ", ListText(stride),
                      " dilation: ", ListText(dilation),
                      padding.empty() ? absl::StrCat(" pad_lo: ", ListText(pad_lo), " pad_hi: ", ListText(pad_hi))
                                      : absl::StrCat(" padding: \"", padding, "\""),
                      " boundary: \"", boundary, "\" } }");
}

torch::Tensor ConvCase::Serial(const torch::Tensor& x, const torch::Tensor& weight, const torch::Tensor& bias) const {
  const std::vector<int64_t> none(kernel.size(), 0);
  if (transposed && pad_lo == pad_hi) return ConvTranspose(x, weight, bias, *this, pad_lo, output_padding);
  if (transposed) {
    // LibTorch pads alike on both sides only: all outputs, of which some are cut off, or followed by zeros.
    std::vector<int64_t> lo, hi;
    for (size_t i = 0; i < kernel.size(); ++i) {
      lo.push_back(-pad_lo[i]);
      hi.push_back(output_padding[i] - pad_hi[i]);
    }
    torch::Tensor y = torch::constant_pad_nd(ConvTranspose(x, weight, {}, *this, none, none), PadList(lo, hi), 0);
    if (!bias.defined()) return y;
    std::vector<int64_t> channels(x.dim(), 1);
    channels[1] = out;
    return y + bias.view(channels);
  }
  if (!padding.empty() && boundary == "zeros") {
    switch (kernel.size()) {
      case 1: return torch::conv1d(x, weight, bias, stride, padding, dilation, groups);
      case 2: return torch::conv2d(x, weight, bias, stride, padding, dilation, groups);
      default: return torch::conv3d(x, weight, bias, stride, padding, dilation, groups);
    }
  }
  const torch::Tensor padded = Padded(x, *this);
  switch (kernel.size()) {
    case 1: return torch::conv1d(padded, weight, bias, stride, none, dilation, groups);
    case 2: return torch::conv2d(padded, weight, bias, stride, none, dilation, groups);
    default: return torch::conv3d(padded, weight, bias, stride, none, dilation, groups);
  }
}

ConvCase RandomConv(RandomJobs& random, int spatial, int64_t most, std::vector<int64_t>& extents) {
  ConvCase conv;
  conv.transposed = random.OneIn(3);
  if (!conv.transposed) conv.boundary = random.Of<std::string>({"zeros", "circular", "reflect", "replicate"});
  if (!conv.transposed) conv.padding = random.Of<std::string>({"", "", "", "same", "same", "valid"});
  conv.groups = random.OneIn(2) ? 1 : random.Between(2, 4);
  conv.in = conv.groups * random.Between(1, conv.groups > 1 ? 2 : 5);
  conv.out = conv.groups * random.Between(1, conv.groups > 1 ? 3 : 5);
  conv.bias = !random.OneIn(4);
  while (static_cast<int>(conv.kernel.size()) < spatial) {
    ConvCase longer = conv;
    const int64_t k = random.Of<int64_t>({1, 2, 3, 4, 5, 7}), d = random.Between(1, 3);
    const int64_t s = conv.padding == "same" ? 1 : random.Between(1, 4);
    int64_t lo = random.Between(0, k), hi = random.OneIn(2) ? lo : random.Between(0, k);
    // As torch.nn.Conv: where the number is odd, the last one is added after.
    if (!conv.padding.empty()) lo = hi = 0;
    for (int64_t more = conv.padding == "same" ? d * (k - 1) : 0; more > 0; --more) ++(lo < hi ? lo : hi);
    longer.AddDim(k, s, d, lo, hi, conv.transposed ? random.Between(0, std::max(s, d) - 1) : 0);
    const int64_t extent = random.Between(1, conv.transposed ? std::max<int64_t>(2, most / s) : most);
    if (longer.OutputSize(static_cast<int>(conv.kernel.size()), extent) < 1) continue;
    conv = longer;
    extents.push_back(extent);
  }
  return conv;
}

}  // namespace adjoin
