#include "layers/pool/pool_case.h"

#include <torch/nn/functional.h>
#include <torch/types.h>
#include <limits>
#include <tuple>

#include <torch/torch.h>

#include "absl/strings/str_cat.h"

namespace adjoin {
namespace {

// One spatial dim at a time, until there is an output: the dilated kernel fits into the padded input, in ceil_mode but
// for less than a step. In three dims LibTorch 1.13 averages only where it fits into the input itself.
void AddDim(RandomJobs& random, int spatial, bool symmetric, PoolCase& c) {
  const int64_t most = spatial == 1 ? 24 : spatial == 2 ? 10 : 6;
  while (true) {
    const bool padded = c.kind != PoolKind::kPower;
    const int64_t kernel = random.Of<int64_t>({1, 2, 3, 4, 5});
    const int64_t dilation = c.kind == PoolKind::kMax ? random.Between(1, 3) : 1;
    const int64_t lo = padded ? random.Between(0, kernel / 2) : 0;
    const int64_t hi = !padded || symmetric || random.OneIn(2) ? lo : random.Between(0, kernel / 2);
    const int64_t extent = random.Between(1, most), stride = random.Between(1, 4);
    if (dilation * (kernel - 1) + 1 > extent + lo + hi + (c.ceil_mode ? stride - 1 : 0)) continue;
    if (spatial == 3 && c.kind != PoolKind::kMax && kernel > extent) continue;
    c.kernel.push_back(kernel);
    c.stride.push_back(stride);
    c.dilation.push_back(dilation);
    c.pad_lo.push_back(lo);
    c.pad_hi.push_back(hi);
    c.extent.push_back(extent);
    return;
  }
}

// For constant_pad_nd: last dim first.
std::vector<int64_t> Padding(const PoolCase& c) {
  std::vector<int64_t> padding;
  for (int i = static_cast<int>(c.kernel.size()) - 1; i >= 0; --i) {
    padding.push_back(c.pad_lo[i]);
    padding.push_back(c.pad_hi[i]);
  }
  return padding;
}

torch::Tensor SerialMax(torch::Tensor x, const PoolCase& c) {
  std::vector<int64_t> padding = c.pad_lo;
  if (!c.IsSymmetric()) {
    x = torch::constant_pad_nd(x, Padding(c), -std::numeric_limits<double>::infinity());
    padding.assign(padding.size(), 0);
  }
  switch (c.kernel.size()) {
    case 1: return torch::max_pool1d(x, c.kernel, c.stride, padding, c.dilation, c.ceil_mode);
    case 2: return torch::max_pool2d(x, c.kernel, c.stride, padding, c.dilation, c.ceil_mode);
    default: return torch::max_pool3d(x, c.kernel, c.stride, padding, c.dilation, c.ceil_mode);
  }
}

torch::Tensor SerialAverage(torch::Tensor x, const PoolCase& c) {
  std::vector<int64_t> padding = c.pad_lo;
  const c10::optional<int64_t> divisor = c.divisor.has_value() ? c10::make_optional(*c.divisor) : c10::nullopt;
  const bool include = c.include_pad.value_or(true);
  if (!c.IsSymmetric()) {
    x = torch::constant_pad_nd(x, Padding(c), 0);
    padding.assign(padding.size(), 0);
  }
  switch (c.kernel.size()) {
    case 1:
      if (!divisor.has_value()) return torch::avg_pool1d(x, c.kernel, c.stride, padding, c.ceil_mode, include);
      return torch::avg_pool2d(x.unsqueeze(2), {1, c.kernel[0]}, {1, c.stride[0]}, {0, padding[0]}, c.ceil_mode,
                               include, divisor)
          .squeeze(2);
    case 2: return torch::avg_pool2d(x, c.kernel, c.stride, padding, c.ceil_mode, include, divisor);
    default: return torch::avg_pool3d(x, c.kernel, c.stride, padding, c.ceil_mode, include, divisor);
  }
}

torch::Tensor SerialPower(const torch::Tensor& x, const PoolCase& c) {
  namespace F = torch::nn::functional;
  const auto expand2 = [](const std::vector<int64_t>& v) { return torch::ExpandingArray<2>({v[0], v[1]}); };
  switch (c.kernel.size()) {
    case 1:
      return F::lp_pool1d(x, F::LPPool1dFuncOptions(c.lp, c.kernel[0]).stride(c.stride[0]).ceil_mode(c.ceil_mode));
    case 2:
      return F::lp_pool2d(
          x, F::LPPool2dFuncOptions(c.lp, expand2(c.kernel)).stride(expand2(c.stride)).ceil_mode(c.ceil_mode));
    default: {
      // The same formula: LibTorch 1.13 has it for 1 and 2 dims only.
      const torch::Tensor average = torch::avg_pool3d(x.pow(c.lp), c.kernel, c.stride, 0, c.ceil_mode);
      const double elements = static_cast<double>(c.kernel[0] * c.kernel[1] * c.kernel[2]);
      return (torch::sign(average) * torch::relu(torch::abs(average))).mul(elements).pow(1.0 / c.lp);
    }
  }
}

}  // namespace

std::string PoolCase::Text(bool return_indices) const {
  std::string text = absl::StrCat("pool { mode: \"", IsMax() ? "max" : kind == PoolKind::kPower ? "lp" : "avg", "\"");
  if (IsAdaptive()) {
    absl::StrAppend(&text, " adaptive_size: ", ListText(size));
  } else {
    absl::StrAppend(&text, " window { kernel: ", ListText(kernel), " stride: ", ListText(stride),
                    " dilation: ", ListText(dilation), " pad_lo: ", ListText(pad_lo), " pad_hi: ", ListText(pad_hi),
                    " }");
  }
  if (ceil_mode) absl::StrAppend(&text, " ceil_mode: true");
  if (include_pad.has_value()) absl::StrAppend(&text, " count_include_pad: ", *include_pad ? "true" : "false");
  if (divisor.has_value()) absl::StrAppend(&text, " divisor_override: ", *divisor);
  if (lp != 0) absl::StrAppend(&text, " lp: ", lp);
  return absl::StrCat(text, return_indices ? " return_indices: true }" : " }");
}

PoolCase RandomPoolCase(RandomJobs& random, PoolKind kind, int spatial, bool symmetric) {
  PoolCase c;
  c.kind = kind;
  if (c.IsAdaptive()) {
    const int64_t most = spatial == 1 ? 24 : spatial == 2 ? 10 : 6;
    for (int i = 0; i < spatial; ++i) {
      c.extent.push_back(random.Between(1, most));
      const int64_t divides = c.extent[i] % 2 == 0 ? c.extent[i] / 2 : c.extent[i];
      c.size.push_back(random.OneIn(3)   ? 1
                       : random.OneIn(4) ? -1
                       : random.OneIn(3) ? divides
                                         : random.Between(1, c.extent[i] + 2));
    }
    return c;
  }
  c.ceil_mode = random.OneIn(2);
  if (kind == PoolKind::kAverage) {
    if (random.OneIn(2)) c.include_pad = random.OneIn(2);
    if (random.OneIn(4)) c.divisor = random.Of<int64_t>({1, 3, -2});
  }
  if (kind == PoolKind::kPower) c.lp = random.Of<double>({1, 1.5, 2, 3});
  // LibTorch pads alike on both sides; a padding of one's own is neither counted apart nor rounded up past.
  const bool alike = symmetric || c.ceil_mode || c.include_pad == false;
  for (int i = 0; i < spatial; ++i) AddDim(random, spatial, alike, c);
  return c;
}

torch::Tensor PoolData(RandomJobs& random, const PoolCase& c, const std::vector<int64_t>& shape) {
  const torch::Tensor normal = random.Normal(shape);
  if (c.kind == PoolKind::kPower) return c.lp == 2 ? normal : normal.abs() + 0.1;
  return c.IsMax() && !random.OneIn(4) ? normal.round() : normal;
}

torch::Tensor SerialPool(const torch::Tensor& x, const PoolCase& c) {
  std::vector<int64_t> size;
  for (size_t i = 0; i < c.size.size(); ++i) size.push_back(c.size[i] == -1 ? c.extent[i] : c.size[i]);
  switch (c.kind) {
    case PoolKind::kMax: return SerialMax(x, c);
    case PoolKind::kAverage: return SerialAverage(x, c);
    case PoolKind::kPower: return SerialPower(x, c);
    case PoolKind::kAdaptiveMax: return SerialMaxPoolWithIndices(x, c).first;
    case PoolKind::kAdaptiveAverage: break;
  }
  switch (size.size()) {
    case 1: return torch::adaptive_avg_pool1d(x, size);
    case 2: return torch::adaptive_avg_pool2d(x, size);
    default: return torch::adaptive_avg_pool3d(x, size);
  }
}

std::pair<torch::Tensor, torch::Tensor> SerialMaxPoolWithIndices(const torch::Tensor& x, const PoolCase& c) {
  std::vector<int64_t> size;
  for (size_t i = 0; i < c.size.size(); ++i) size.push_back(c.size[i] == -1 ? c.extent[i] : c.size[i]);
  std::tuple<torch::Tensor, torch::Tensor> found;
  switch (c.extent.size()) {
    case 1:
      found = c.IsAdaptive() ? torch::adaptive_max_pool1d(x, size)
                             : torch::max_pool1d_with_indices(x, c.kernel, c.stride, c.pad_lo, c.dilation, c.ceil_mode);
      break;
    case 2:
      found = c.IsAdaptive() ? torch::adaptive_max_pool2d(x, size)
                             : torch::max_pool2d_with_indices(x, c.kernel, c.stride, c.pad_lo, c.dilation, c.ceil_mode);
      break;
    default:
      found = c.IsAdaptive() ? torch::adaptive_max_pool3d(x, size)
                             : torch::max_pool3d_with_indices(x, c.kernel, c.stride, c.pad_lo, c.dilation, c.ceil_mode);
  }
  return {std::get<0>(found), std::get<1>(found)};
}

}  // namespace adjoin
