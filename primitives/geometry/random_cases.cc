#include "primitives/geometry/random_cases.h"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "base/testing/test_seed.h"
#include "primitives/geometry/dtype.h"

namespace adjoin {
namespace {

const std::vector<std::vector<int64_t>>& MeshShapes() {
  static const auto* shapes = new std::vector<std::vector<int64_t>>{
      {},     {1},    {2},    {3},       {4},       {5},       {8},       {1, 1},    {2, 2},   {2, 3},
      {3, 2}, {4, 2}, {1, 4}, {2, 1, 2}, {2, 2, 2}, {1, 3, 2}, {3, 1, 1}, {2, 2, 1}, {1, 2, 3}};
  return *shapes;
}

std::vector<int> ShuffledRanks(Draw& draw) {
  std::vector<int> ranks(9);
  std::iota(ranks.begin(), ranks.end(), 0);
  if (!draw.OneIn(3)) std::shuffle(ranks.begin(), ranks.end(), draw.engine());
  return ranks;
}

}  // namespace

Draw Draw::FromEnvironment() { return Draw(TestSeed()); }

std::vector<int64_t> Draw::Sizes(int64_t n, int64_t parts) {
  std::vector<int64_t> cuts = {0, n};
  for (int64_t i = 1; i < parts; ++i) cuts.push_back(Between(0, n));
  std::sort(cuts.begin(), cuts.end());
  std::vector<int64_t> sizes;
  for (int64_t i = 0; i < parts; ++i) sizes.push_back(cuts[i + 1] - cuts[i]);
  return sizes;
}

std::vector<int64_t> Draw::Integers(int64_t count, int64_t lo, int64_t hi) {
  std::vector<int64_t> numbers(count);
  for (int64_t& number : numbers) number = Between(lo, hi);
  return numbers;
}

Mesh RandomMesh(Draw& draw) {
  const std::vector<int64_t>& shape = MeshShapes()[draw.Between(0, MeshShapes().size() - 1)];
  std::vector<int> ranks = ShuffledRanks(draw);
  ranks.resize(std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<int64_t>()));
  return Mesh::Create(shape, std::move(ranks)).value();
}

Mesh RelatedMesh(Draw& draw, const Mesh& mesh) {
  if (draw.OneIn(2)) return mesh;
  if (draw.OneIn(2)) return RandomMesh(draw);
  std::vector<int> ranks = mesh.ranks();
  std::shuffle(ranks.begin(), ranks.end(), draw.engine());
  std::vector<int64_t> shape = mesh.shape();
  std::shuffle(shape.begin(), shape.end(), draw.engine());
  return Mesh::Create(std::move(shape), std::move(ranks)).value();
}

Layout RandomLayout(Draw& draw, const std::vector<int64_t>& shape, const Mesh& mesh) {
  const int dims = static_cast<int>(shape.size());
  std::vector<Placement> placements;
  std::vector<int64_t> parts(dims, 1);
  for (int axis = 0; axis < mesh.axes(); ++axis) {
    const int64_t kind = draw.Between(dims == 0 ? 2 : 0, 3);
    if (kind <= 1) {
      const int dim = static_cast<int>(draw.Between(0, dims - 1));
      placements.push_back(Placement::Split(dim));
      parts[dim] *= mesh.shape()[axis];
    } else {
      placements.push_back(kind == 2 ? Placement::Broadcast() : Placement::Partial());
    }
  }
  Layout::Cuts cuts;
  for (const Placement& placement : placements) {
    if (placement.kind == Placement::Kind::kSplit && draw.OneIn(3)) {
      cuts[placement.dim] = draw.Sizes(shape[placement.dim], parts[placement.dim]);
    }
  }
  return Layout::Create(shape, DType::kFloat64, mesh, std::move(placements), std::move(cuts)).value();
}

}  // namespace adjoin
