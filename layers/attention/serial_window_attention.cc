// Attention within shifted windows on whole tensors, as torchvision's shifted_window_attention.
#include <torch/nn/functional.h>
#include <torch/types.h>

#include <cmath>
#include <vector>

#include "layers/pointwise/serial_random.h"
#include "layers/serial_functions.h"

namespace adjoin {
namespace {

namespace F = torch::nn::functional;
using torch::Tensor;

struct Shifted {
  std::vector<int64_t> window, shift;
  int64_t cells = 1;
};

template <typename List>
std::vector<int64_t> PerDim(const List& list, size_t dims) {
  if (list.empty()) return std::vector<int64_t>(dims, 0);
  if (list.size() == 1) return std::vector<int64_t>(dims, list.Get(0));
  return std::vector<int64_t>(list.begin(), list.end());
}

// [n, extents ..., c] to [n * windows, cells, c], and back to `shape`.
Tensor Partition(const Tensor& x, const Shifted& s) {
  const size_t dims = s.window.size();
  std::vector<int64_t> split = {x.size(0)}, order = {0};
  for (size_t d = 0; d < dims; ++d) {
    split.insert(split.end(), {x.size(d + 1) / s.window[d], s.window[d]});
    order.push_back(2 * d + 1);
  }
  for (size_t d = 0; d < dims; ++d) order.push_back(2 * d + 2);
  split.push_back(x.size(-1));
  order.push_back(2 * dims + 1);
  return x.reshape(split).permute(order).reshape({-1, s.cells, x.size(-1)});
}

Tensor Joined(const Tensor& windows, const Shifted& s, const std::vector<int64_t>& shape) {
  const size_t dims = s.window.size();
  std::vector<int64_t> split = {shape[0]}, order = {0};
  for (size_t d = 0; d < dims; ++d) split.push_back(shape[d + 1] / s.window[d]);
  for (size_t d = 0; d < dims; ++d) split.push_back(s.window[d]);
  for (size_t d = 0; d < dims; ++d) order.insert(order.end(), {int64_t(d + 1), int64_t(d + 1 + dims)});
  split.push_back(shape.back());
  order.push_back(2 * dims + 1);
  return windows.reshape(split).permute(order).reshape(shape);
}

// [cells, cells]: coordinates' differences as one number.
Tensor RelativeIndex(const Shifted& s) {
  std::vector<Tensor> axes;
  for (int64_t window : s.window) axes.push_back(torch::arange(window));
  const std::vector<Tensor> grids = torch::meshgrid(axes, "ij");
  Tensor index = torch::zeros({s.cells, s.cells}, torch::kInt64);
  for (size_t d = 0; d < grids.size(); ++d) {
    const Tensor at = grids[d].flatten();
    index = index * (2 * s.window[d] - 1) + (at.unsqueeze(1) - at.unsqueeze(0) + s.window[d] - 1);
  }
  return index;
}

// [windows of a sample, cells, cells]: -100 between slices that the roll brought together.
Tensor Mask(const std::vector<int64_t>& padded, const Shifted& s) {
  std::vector<int64_t> shape = {1};
  shape.insert(shape.end(), padded.begin() + 1, padded.end() - 1);
  shape.push_back(1);
  Tensor region = torch::zeros(shape, torch::kFloat64);
  for (size_t d = 0; d < s.window.size(); ++d) {
    const int64_t n = shape[d + 1];
    if (s.shift[d] == 0) continue;
    Tensor number = torch::zeros({n}, torch::kFloat64);
    number.narrow(0, n - s.window[d], s.window[d]).fill_(1);
    number.narrow(0, n - s.shift[d], s.shift[d]).fill_(2);
    std::vector<int64_t> along(shape.size(), 1);
    along[d + 1] = n;
    region = region * 3 + number.reshape(along);
  }
  const Tensor windows = Partition(region, s).squeeze(-1);
  const Tensor difference = windows.unsqueeze(1) - windows.unsqueeze(2);
  return torch::zeros_like(difference).masked_fill(difference != 0, -100.0);
}

}  // namespace

Tensor SerialWindowAttention(SerialCall& call) {
  const WindowAttention& spec = call.spec().window_attention();
  const Tensor& input = call.input();
  const size_t dims = input.dim() - 2;
  const int64_t channels = input.size(-1), heads = spec.heads();
  Shifted s{PerDim(spec.window(), dims), PerDim(spec.shift(), dims)};
  std::vector<int64_t> padding = {0, 0}, padded = input.sizes().vec(), spatial, forth, back;
  int64_t distances = 1;
  for (size_t d = 0; d < dims; ++d) {
    s.cells *= s.window[d];
    distances *= 2 * s.window[d] - 1;
    const int64_t more = (s.window[d] - padded[d + 1] % s.window[d]) % s.window[d];
    padding.insert(padding.begin() + 2, {0, more});  // F::pad's last dim first
    padded[d + 1] += more;
    if (s.window[d] >= padded[d + 1]) s.shift[d] = 0;
    spatial.push_back(d + 1);
    forth.push_back(-s.shift[d]);
    back.push_back(s.shift[d]);
  }
  const bool bias = !spec.has_bias() || spec.bias();
  const double spread = 1 / std::sqrt(static_cast<double>(channels));
  const Tensor qkv_weight = call.Parameter("qkv.weight", {3 * channels, channels}, spread);
  const Tensor qkv_bias = bias ? call.Parameter("qkv.bias", {3 * channels}, spread) : Tensor();
  const Tensor proj_weight = call.Parameter("proj.weight", {channels, channels}, spread);
  const Tensor proj_bias = bias ? call.Parameter("proj.bias", {channels}, spread) : Tensor();
  const Tensor table = call.Parameter("relative_position_bias_table", {distances, heads}, 0.5);

  const Tensor rolled = torch::roll(F::pad(input, F::PadFuncOptions(padding)), forth, spatial);
  const Tensor x = Partition(rolled, s);
  const Tensor qkv = F::linear(x, qkv_weight, qkv_bias)
                         .reshape({x.size(0), s.cells, 3, heads, channels / heads})
                         .permute({2, 0, 3, 1, 4});
  Tensor scores = (qkv[0] / std::sqrt(static_cast<double>(channels / heads))).matmul(qkv[1].transpose(-2, -1));
  scores = scores + table.index({RelativeIndex(s)}).permute({2, 0, 1}).unsqueeze(0);
  const Tensor mask = Mask(padded, s);
  const int64_t windows = mask.size(0);
  scores = scores.view({x.size(0) / windows, windows, heads, s.cells, s.cells}) + mask.unsqueeze(1).unsqueeze(0);
  Tensor weights = torch::softmax(scores, -1);
  if (spec.dropout() > 0) weights = weights * SerialDropoutFactors(call.place(), weights.sizes().vec(), spec.dropout());
  weights = weights.view({-1, heads, s.cells, s.cells});
  const Tensor values = weights.matmul(qkv[2]).transpose(1, 2).reshape({x.size(0), s.cells, channels});
  Tensor y = torch::roll(Joined(F::linear(values, proj_weight, proj_bias), s, padded), back, spatial);
  for (size_t d = 0; d < dims; ++d) y = y.narrow(d + 1, 0, input.size(d + 1));
  return y.contiguous();
}

}  // namespace adjoin
