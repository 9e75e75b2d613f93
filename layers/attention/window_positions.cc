#include "layers/attention/window_positions.h"

#include <utility>

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/zeros.h>

namespace adjoin {

using at::Tensor;

namespace {

// The dims of a tensor split into windows, before: [n, windows_1, window_1, windows_2, window_2, ..., channels].
std::vector<int64_t> SplitShape(const std::vector<int64_t>& shape, const std::vector<int64_t>& window) {
  std::vector<int64_t> split = {shape[0]};
  for (size_t dim = 0; dim < window.size(); ++dim) {
    split.push_back(shape[dim + 1] / window[dim]);
    split.push_back(window[dim]);
  }
  split.push_back(shape.back());
  return split;
}

// [n, windows ..., window ..., channels] of that.
std::vector<int64_t> WindowsFirst(size_t dims) {
  std::vector<int64_t> order = {0};
  for (size_t dim = 0; dim < dims; ++dim) order.push_back(static_cast<int64_t>(2 * dim + 1));
  for (size_t dim = 0; dim < dims; ++dim) order.push_back(static_cast<int64_t>(2 * dim + 2));
  order.push_back(static_cast<int64_t>(2 * dims + 1));
  return order;
}

}  // namespace

WindowPositions::WindowPositions(std::vector<int64_t> padded, std::vector<int64_t> window, std::vector<int64_t> shift)
    : padded_(std::move(padded)), window_(std::move(window)), shift_(std::move(shift)), cells_(VolumeOf(window_)) {}

Tensor WindowPositions::RelativeIndex() const {
  Tensor index = at::zeros({cells_, cells_}, at::kLong);
  int64_t after = cells_, before = 1;  // cells of the dims behind this one, in front of it
  for (size_t dim = 0; dim < window_.size(); ++dim) {
    const int64_t window = window_[dim];
    after /= window;
    const Tensor at = at::arange(window).reshape({1, window, 1}).expand({before, window, after}).reshape({cells_});
    index = index * (2 * window - 1) + at.unsqueeze(1) - at.unsqueeze(0) + window - 1;
    before *= window;
  }
  return index;
}

bool WindowPositions::AnyHidden() const {
  for (int64_t shift : shift_) {
    if (shift > 0) return true;
  }
  return false;
}

Tensor WindowPositions::Hidden(const std::vector<Interval>& part, at::Device device) const {
  // The region of each cell of the part.
  std::vector<int64_t> shape = {1};
  for (const Interval& dim : part) shape.push_back(dim.size());
  shape.push_back(1);
  const at::TensorOptions options = at::TensorOptions(device).dtype(at::kLong);
  Tensor region = at::zeros(shape, options);
  for (size_t dim = 0; dim < part.size(); ++dim) {
    if (shift_[dim] == 0) continue;
    const Tensor at = at::arange(part[dim].lo, part[dim].hi, options);
    // In the last windows are the tensor's end and, rolled there, its start.
    const Tensor of_dim = (at >= padded_[dim] - window_[dim]).to(at::kLong) + (at >= padded_[dim] - shift_[dim]);
    std::vector<int64_t> along(shape.size(), 1);
    along[dim + 1] = part[dim].size();
    region = region * 3 + of_dim.reshape(along);
  }
  const Tensor of_windows = ToWindows(region, window_).squeeze(-1);
  return of_windows.unsqueeze(1) != of_windows.unsqueeze(2);
}

Tensor ToWindows(const Tensor& x, const std::vector<int64_t>& window) {
  const Tensor split = x.reshape(SplitShape(x.sizes().vec(), window));
  return split.permute(WindowsFirst(window.size())).reshape({-1, VolumeOf(window), x.size(-1)});
}

Tensor FromWindows(const Tensor& windows, const std::vector<int64_t>& window, const std::vector<int64_t>& shape) {
  const std::vector<int64_t> split = SplitShape(shape, window), order = WindowsFirst(window.size());
  std::vector<int64_t> first(order.size()), back(order.size());
  for (size_t i = 0; i < order.size(); ++i) {
    first[i] = split[order[i]];
    back[order[i]] = static_cast<int64_t>(i);
  }
  return windows.reshape(first).permute(back).reshape(shape);
}

}  // namespace adjoin
