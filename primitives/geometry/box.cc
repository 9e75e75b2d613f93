#include "primitives/geometry/box.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace adjoin {

Interval Interval::Intersect(Interval other) const {
  const int64_t from = std::max(lo, other.lo);
  return {from, std::max(from, std::min(hi, other.hi))};
}

Interval Interval::Hull(Interval other) const {
  if (empty()) return other;
  if (other.empty()) return *this;
  return {std::min(lo, other.lo), std::max(hi, other.hi)};
}

std::string Interval::ToString() const { return absl::StrCat("[", lo, ", ", hi, ")"); }

Box Box::Whole(const std::vector<int64_t>& shape) {
  std::vector<Interval> dims;
  dims.reserve(shape.size());
  for (int64_t extent : shape) dims.push_back({0, extent});
  return Box(std::move(dims));
}

int64_t Box::Volume() const {
  int64_t volume = 1;
  for (const Interval& interval : dims_) volume *= interval.size();
  return volume;
}

std::vector<int64_t> Box::Shape() const {
  std::vector<int64_t> shape;
  shape.reserve(dims_.size());
  for (const Interval& interval : dims_) shape.push_back(interval.size());
  return shape;
}

std::vector<int64_t> Box::Origin() const {
  std::vector<int64_t> origin;
  origin.reserve(dims_.size());
  for (const Interval& interval : dims_) origin.push_back(interval.lo);
  return origin;
}

std::vector<int64_t> Box::CellAt(int64_t position) const {
  std::vector<int64_t> index(dims_.size());
  for (size_t d = dims_.size(); d-- > 0; position /= dims_[d].size()) {
    index[d] = dims_[d].lo + position % dims_[d].size();
  }
  return index;
}

Box Box::Intersect(const Box& other) const {
  std::vector<Interval> dims;
  dims.reserve(dims_.size());
  for (size_t d = 0; d < dims_.size(); ++d) dims.push_back(dims_[d].Intersect(other.dims_[d]));
  return Box(std::move(dims));
}

bool Box::Contains(const Box& other) const {
  if (other.empty()) return true;
  for (size_t d = 0; d < dims_.size(); ++d) {
    if (other.dims_[d].lo < dims_[d].lo || other.dims_[d].hi > dims_[d].hi) return false;
  }
  return true;
}

std::string Box::ToString() const {
  return absl::StrJoin(dims_, " x ",
                       [](std::string* out, const Interval& interval) { absl::StrAppend(out, interval.ToString()); });
}

int64_t VolumeOf(const std::vector<int64_t>& shape) {
  int64_t volume = 1;
  for (int64_t extent : shape) volume *= extent;
  return volume;
}

int64_t RowMajorPlace(const std::vector<int64_t>& index, const std::vector<int64_t>& shape) {
  int64_t position = 0;
  for (size_t d = 0; d < shape.size(); ++d) position = position * shape[d] + index[d];
  return position;
}

}  // namespace adjoin
