#include "primitives/geometry/mesh.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace adjoin {
namespace {

// More ranks than any mesh has; keeps products of bad sizes from overflowing.
constexpr int64_t kMaxRanks = int64_t{1} << 24;

absl::StatusOr<int64_t> RankCount(const std::vector<int64_t>& shape) {
  int64_t count = 1;
  for (int64_t size : shape) {
    if (size < 1) {
      return absl::InvalidArgumentError(
          absl::StrCat("mesh ", absl::StrJoin(shape, "x"), " has an axis of size ", size, "; each needs at least 1"));
    }
    if (size > kMaxRanks / count) {
      return absl::InvalidArgumentError(
          absl::StrCat("mesh ", absl::StrJoin(shape, "x"), " has more than ", kMaxRanks, " ranks"));
    }
    count *= size;
  }
  return count;
}

}  // namespace

absl::StatusOr<Mesh> Mesh::Create(std::vector<int64_t> shape, std::vector<int> ranks,
                                  std::vector<std::string> axis_names) {
  absl::StatusOr<int64_t> count = RankCount(shape);
  if (!count.ok()) return count.status();
  if (*count != static_cast<int64_t>(ranks.size())) {
    return absl::InvalidArgumentError(absl::StrCat("mesh ", absl::StrJoin(shape, "x"), " needs ", *count,
                                                   " ranks, but ", ranks.size(), " are given"));
  }
  if (!axis_names.empty() && axis_names.size() != shape.size()) {
    return absl::InvalidArgumentError(absl::StrCat("mesh ", absl::StrJoin(shape, "x"), " has ", shape.size(),
                                                   " axes, but ", axis_names.size(), " names are given"));
  }
  Ranks held;
  for (size_t i = 0; i < ranks.size(); ++i) {
    if (ranks[i] < 0) {
      return absl::InvalidArgumentError(absl::StrCat("rank ", ranks[i], " of a mesh is negative"));
    }
    held.consecutive = held.consecutive && ranks[i] - ranks[0] == static_cast<int>(i);
  }
  for (size_t i = 0; i < ranks.size() && !held.consecutive; ++i) {
    if (!held.index_of.emplace(ranks[i], static_cast<int64_t>(i)).second) {
      return absl::InvalidArgumentError(absl::StrCat("rank ", ranks[i], " stands twice in the mesh ",
                                                     absl::StrJoin(shape, "x"), " [", absl::StrJoin(ranks, " "), "]"));
    }
  }
  held.list = std::move(ranks);
  Mesh mesh;
  mesh.shape_ = std::move(shape);
  mesh.ranks_ = std::make_shared<const Ranks>(std::move(held));
  mesh.axis_names_ = std::move(axis_names);
  return mesh;
}

absl::StatusOr<Mesh> Mesh::Create(std::vector<int64_t> shape) {
  absl::StatusOr<int64_t> count = RankCount(shape);
  if (!count.ok()) return count.status();
  std::vector<int> ranks(*count);
  std::iota(ranks.begin(), ranks.end(), 0);
  return Create(std::move(shape), std::move(ranks));
}

Mesh Mesh::WithWeights(std::shared_ptr<const RankWeights> weights) const {
  Mesh mesh = *this;
  mesh.weights_ = weights == nullptr || weights->even() ? nullptr : std::move(weights);
  return mesh;
}

std::optional<int64_t> Mesh::IndexOf(int rank) const {
  if (ranks_->consecutive) {
    const int64_t index = int64_t{rank} - ranks_->list[0];
    return index >= 0 && index < size() ? std::make_optional(index) : std::nullopt;
  }
  auto it = ranks_->index_of.find(rank);
  if (it == ranks_->index_of.end()) return std::nullopt;
  return it->second;
}

std::optional<std::vector<int64_t>> Mesh::CoordsOf(int rank) const {
  std::optional<int64_t> index = IndexOf(rank);
  if (!index.has_value()) return std::nullopt;
  std::vector<int64_t> coords(shape_.size());
  int64_t rest = *index;
  for (int axis = axes() - 1; axis >= 0; --axis) {
    coords[axis] = rest % shape_[axis];
    rest /= shape_[axis];
  }
  return coords;
}

int Mesh::RankAt(const std::vector<int64_t>& coords) const {
  int64_t index = 0;
  for (int axis = 0; axis < axes(); ++axis) index = index * shape_[axis] + coords[axis];
  return ranks_->list[index];
}

std::vector<int> Mesh::Along(int axis, int rank) const {
  std::vector<int64_t> coords = CoordsOf(rank).value();
  std::vector<int> ranks;
  ranks.reserve(shape_[axis]);
  for (int64_t i = 0; i < shape_[axis]; ++i) {
    coords[axis] = i;
    ranks.push_back(RankAt(coords));
  }
  return ranks;
}

std::string Mesh::ToString() const {
  return absl::StrCat(absl::StrJoin(shape_, "x"), " [", absl::StrJoin(ranks_->list, " "), "]");
}

}  // namespace adjoin
