#include "importer/layers/parameter_view.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "base/status_macros.h"

namespace adjoin {
namespace {

using Extents = std::vector<int64_t>;

absl::Status RefusedView(const char* why) { return absl::InvalidArgumentError(why); }

absl::Status OtherDims() { return RefusedView("its dims are not those of its parameter"); }

}  // namespace

ParameterView ParameterView::Of(Extents shape) {
  ParameterView view;
  for (size_t i = 0; i < shape.size(); ++i) view.dims_.push_back({static_cast<int>(i), shape[i]});
  view.length_ = view.own_shape_ = std::move(shape);
  return view;
}

Extents ParameterView::shape() const {
  Extents shape;
  for (const Dim& dim : dims_) shape.push_back(dim.extent);
  return shape;
}

bool ParameterView::IsWhole() const {
  if (length_ != own_shape_ || dims_.size() != own_shape_.size()) return false;
  for (size_t i = 0; i < dims_.size(); ++i) {
    if (dims_[i].own != static_cast<int>(i) || dims_[i].extent != own_shape_[i]) return false;
  }
  return true;
}

bool ParameterView::Repeats(const Dim& dim) const {
  return dim.extent != 1 && (dim.own < 0 || length_[static_cast<size_t>(dim.own)] != dim.extent);
}

absl::StatusOr<ParameterView> ParameterView::First(size_t dim, int64_t count) const {
  if (dim >= dims_.size()) return OtherDims();
  ParameterView view = *this;
  if (count < 1 || count > dims_[dim].extent) return RefusedView("it takes elements that the parameter does not have");
  if (count == dims_[dim].extent) return view;
  if (Repeats(dims_[dim])) return RefusedView("it takes a part of what is repeated");
  view.dims_[dim].extent = count;
  view.length_[static_cast<size_t>(dims_[dim].own)] = count;
  return view;
}

absl::StatusOr<ParameterView> ParameterView::Reshaped(const Extents& to) const {
  ParameterView view = *this;
  view.dims_.clear();
  // Dims of more than one element stay in their order.
  size_t next = 0;
  const auto skip_ones = [&] {
    while (next < dims_.size() && dims_[next].extent == 1) ++next;
  };
  for (int64_t extent : to) {
    if (extent == 1) {
      const bool is_one = next < dims_.size() && dims_[next].extent == 1;
      view.dims_.push_back(is_one ? dims_[next++] : Dim());
      continue;
    }
    skip_ones();
    if (next == dims_.size() || dims_[next].extent != extent) {
      return RefusedView("it changes the shape of a parameter; right would be a parameter of that shape");
    }
    view.dims_.push_back(dims_[next++]);
  }
  skip_ones();
  if (next != dims_.size()) return RefusedView("it changes the shape of a parameter; right would be one of that shape");
  return view;
}

absl::StatusOr<ParameterView> ParameterView::Expanded(const Extents& to) const {
  ParameterView view = *this;
  if (to.size() < dims_.size()) return RefusedView("it has fewer dims than the parameter");
  view.dims_.insert(view.dims_.begin(), to.size() - dims_.size(), Dim());
  for (size_t i = 0; i < to.size(); ++i) {
    if (view.dims_[i].extent == to[i]) continue;
    if (view.dims_[i].extent != 1) return RefusedView("it repeats a dim of more than one element");
    view.dims_[i].extent = to[i];
  }
  return view;
}

absl::StatusOr<ParameterView> ParameterView::Permuted(const Extents& order) const {
  Extents dims = order;
  std::sort(dims.begin(), dims.end());
  if (dims.size() != dims_.size()) return OtherDims();
  for (size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] != static_cast<int64_t>(i)) return OtherDims();
  }
  ParameterView view = *this;
  for (size_t i = 0; i < order.size(); ++i) view.dims_[i] = dims_[static_cast<size_t>(order[i])];
  return view;
}

absl::StatusOr<ParameterView> ParameterView::WithoutDim(size_t dim) const {
  if (dim >= dims_.size()) return OtherDims();
  ParameterView view = *this;
  view.dims_.erase(view.dims_.begin() + static_cast<ptrdiff_t>(dim));
  return view;
}

absl::StatusOr<ParameterView> ParameterView::WithDim(size_t dim) const {
  if (dim > dims_.size()) return OtherDims();
  ParameterView view = *this;
  view.dims_.insert(view.dims_.begin() + static_cast<ptrdiff_t>(dim), Dim());
  return view;
}

absl::StatusOr<Extents> ParameterView::OrderBeside(const Extents& x) const {
  if (dims_.size() > x.size() || own_shape_.size() > x.size())
    return RefusedView("a parameter has more dims than the other");
  const size_t front = x.size() - dims_.size(), of_own = x.size() - own_shape_.size();
  std::vector<int64_t> place(x.size(), -1);  // in the new order: the dim of x
  std::vector<bool> placed(x.size(), false);
  for (size_t i = 0; i < dims_.size(); ++i) {
    const Dim& dim = dims_[i];
    const size_t in_x = front + i;
    if (dim.extent == 1) continue;
    if (dim.extent != x[in_x]) return RefusedView("a parameter is larger than what it is combined with");
    if (Repeats(dim)) continue;  // the other operand repeats it as well
    if (in_x == 0) return RefusedView("a parameter has elements for each sample of the batch");
    const size_t wanted = of_own + static_cast<size_t>(dim.own);
    if (wanted == 0) return RefusedView("a parameter's dim 0 stands beside the batch");
    place[wanted] = static_cast<int64_t>(in_x);
    placed[in_x] = true;
  }
  // Extents of 1 stand beside anything. What is free stays where it is if it can, the batch always.
  for (size_t i = 0; i < x.size(); ++i) {
    if (place[i] >= 0 || placed[i]) continue;
    place[i] = static_cast<int64_t>(i);
    placed[i] = true;
  }
  size_t next = 0;
  for (int64_t& dim : place) {
    if (dim >= 0) continue;
    while (placed[next]) ++next;
    dim = static_cast<int64_t>(next);
    placed[next] = true;
  }
  return place;
}

bool ParameterView::IsOnePerSample(int64_t batch) const {
  if (own_shape_.empty() || own_shape_[0] != 1 || dims_.size() != own_shape_.size()) return false;
  for (size_t i = 0; i < dims_.size(); ++i) {
    const bool own = dims_[i].own == static_cast<int>(i) || (length_[i] == 1 && dims_[i].own < 0);
    if (!own || dims_[i].extent != (i == 0 ? batch : length_[i])) return false;
  }
  return true;
}

bool ParameterView::IsWholePerSample(int64_t batch) const {
  if (dims_.size() != own_shape_.size() + 1 || dims_[0].own >= 0 || dims_[0].extent != batch) return false;
  for (size_t i = 1; i < dims_.size(); ++i) {
    if (dims_[i].own != static_cast<int>(i) - 1 || dims_[i].extent != own_shape_[i - 1]) return false;
  }
  return true;
}

}  // namespace adjoin
