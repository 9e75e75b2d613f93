#include "coordinator/placement/rank_order.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <utility>

namespace adjoin {
namespace {

// Cells of the mesh from `begin` to `end`, exclusive, per axis.
void AppendCompact(const Mesh& mesh, std::vector<int64_t> begin, std::vector<int64_t> end, std::vector<int>* order) {
  int longest = 0;
  for (int axis = 1; axis < mesh.axes(); ++axis) {
    if (end[axis] - begin[axis] > end[longest] - begin[longest]) longest = axis;
  }
  if (mesh.axes() == 0 || end[longest] - begin[longest] == 1) {
    order->push_back(mesh.RankAt(begin));
    return;
  }
  const int64_t middle = (begin[longest] + end[longest]) / 2;
  std::vector<int64_t> first_end = end, second_begin = begin;
  first_end[longest] = second_begin[longest] = middle;
  AppendCompact(mesh, begin, std::move(first_end), order);
  AppendCompact(mesh, std::move(second_begin), std::move(end), order);
}

std::vector<int64_t> ShapeOf(const LayoutSpec& layout) {
  std::vector<int64_t> shape(layout.partition().begin(), layout.partition().end());
  for (const Axis& axis : layout.mesh()) shape.push_back(axis.size());
  return shape;
}

}  // namespace

std::vector<int> CompactOrder(const Mesh& mesh) {
  std::vector<int> order;
  AppendCompact(mesh, std::vector<int64_t>(mesh.axes()), mesh.shape(), &order);
  return order;
}

std::vector<int> AssignmentOrder(const JobSpec& spec) {
  std::vector<int> all(spec.ranks());
  std::iota(all.begin(), all.end(), 0);
  for (const LayoutSpec& layout : spec.layout()) {
    std::vector<int> ranks(layout.rank().begin(), layout.rank().end());
    const absl::StatusOr<Mesh> mesh = Mesh::Create(ShapeOf(layout), ranks.empty() ? all : ranks);
    if (!mesh.ok() || mesh->size() != static_cast<int64_t>(all.size())) continue;
    if (!std::all_of(all.begin(), all.end(), [&](int rank) { return mesh->Has(rank); })) continue;
    return CompactOrder(*mesh);
  }
  return all;
}

}  // namespace adjoin
