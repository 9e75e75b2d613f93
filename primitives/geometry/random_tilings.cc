#include "primitives/geometry/random_tilings.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "primitives/geometry/tiling.h"

namespace adjoin {
namespace {

using Kind = Placement::Kind;

std::vector<int64_t> RandomShape(Draw& draw, bool only_ones) {
  std::vector<int64_t> shape = draw.Integers(draw.Between(0, 4), 1, 5);
  for (int64_t& extent : shape) {
    if (draw.OneIn(only_ones ? 2 : 5)) extent = 1;
    if (draw.OneIn(30)) extent = 0;
  }
  return shape;
}

std::vector<int64_t> OutputShape(Draw& draw, const std::vector<int64_t>& shape, bool only_ones) {
  std::vector<int64_t> output = draw.Integers(draw.OneIn(2) ? 0 : draw.Between(1, 2), 1, 4);
  for (int64_t extent : shape) {
    const bool changes = only_ones ? extent == 1 && !draw.OneIn(4) : draw.OneIn(2);
    output.push_back(changes ? extent * draw.Between(1, only_ones ? 6 : 4) : extent);
  }
  if (!output.empty() && draw.OneIn(12)) {
    const int64_t dim = draw.Between(0, static_cast<int64_t>(output.size()) - 1);
    const int64_t in_x = dim - static_cast<int64_t>(output.size() - shape.size());
    if (!only_ones || in_x < 0 || shape[in_x] == 1) output[dim] = 0;
  }
  return output;
}

}  // namespace

std::pair<Layout, Layout> RandomTiling(Draw& draw, const Mesh& mesh, bool only_ones, DType dtype) {
  const std::vector<int64_t> shape = RandomShape(draw, only_ones);
  const Layout x = RandomLayout(draw, shape, mesh).WithDType(dtype);
  const Layout kept = Tiling::OutputLayout("random tiling", x, OutputShape(draw, shape, only_ones)).value();
  if (draw.OneIn(3)) return {x, kept};
  const int new_dims = kept.dims() - x.dims();
  std::vector<int> changed;
  for (int d = 0; d < kept.dims(); ++d) {
    if (d < new_dims || x.shape()[d - new_dims] != kept.shape()[d]) changed.push_back(d);
  }
  const auto changes = [&](int d) { return std::count(changed.begin(), changed.end(), d) > 0; };
  std::vector<Placement> placements = kept.placements();
  for (Placement& placement : placements) {
    const bool split = placement.kind == Kind::kSplit;
    if (placement.kind == Kind::kPartial || (split && !changes(placement.dim)) || draw.OneIn(4)) continue;
    const int64_t choice = draw.Between(0, split ? 3 : 2);
    if (choice == 0) placement = Placement::Broadcast();
    if (choice == 3) placement = Placement::Partial();
    if ((choice == 1 || choice == 2) && !changed.empty()) {
      placement = Placement::Split(changed[draw.Between(0, static_cast<int64_t>(changed.size()) - 1)]);
    }
  }
  const Layout even = Layout::Create(kept.shape(), dtype, mesh, placements).value();
  Layout::Cuts cuts;
  for (int d = 0; d < kept.dims(); ++d) {
    if (even.AxesOf(d).empty() || (changes(d) && draw.OneIn(2))) continue;
    if (changes(d)) {
      cuts[d] = draw.Sizes(kept.shape()[d], even.Parts(d));
      continue;
    }
    cuts[d] = PartSizes(kept, d);
  }
  return {x, Layout::Create(kept.shape(), dtype, mesh, std::move(placements), std::move(cuts)).value()};
}

}  // namespace adjoin
