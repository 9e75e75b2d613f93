#include "primitives/repeat.h"

#include <algorithm>

#include <ATen/ops/cat.h>
#include <ATen/ops/zeros.h>

#include "base/status_macros.h"
#include "primitives/geometry/box.h"
#include "primitives/geometry/tiling.h"

namespace adjoin {
namespace {

bool IsWholeTiles(const DimTile& tile) { return tile.start == 0 && tile.length % tile.extent == 0; }

// The cells of a tile that is not whole: to the end of x, all of x some times, and what is left.
struct Run {
  explicit Run(const DimTile& tile)
      : head(tile.start == 0 ? 0 : std::min(tile.length, tile.extent - tile.start)),
        times((tile.length - head) / tile.extent),
        tail((tile.length - head) % tile.extent) {}
  int64_t head;
  int64_t times;
  int64_t tail;
};

at::Tensor RunOf(const at::Tensor& x, int64_t dim, const DimTile& tile) {
  const Run run(tile);
  std::vector<at::Tensor> cells;
  if (run.head > 0) cells.push_back(x.narrow(dim, tile.start, run.head));
  cells.insert(cells.end(), run.times, x);
  if (run.tail > 0) cells.push_back(x.narrow(dim, 0, run.tail));
  return at::cat(cells, dim);
}

// Adds up `times` blocks of `extent` cells of `dim`.
at::Tensor SumOfBlocks(const at::Tensor& y, int64_t dim, int64_t times, int64_t extent) {
  std::vector<int64_t> blocks = y.sizes().vec();
  blocks[dim] = extent;
  blocks.insert(blocks.begin() + dim, times);
  return y.reshape(blocks).sum(dim, /*keepdim=*/false, y.scalar_type());
}

at::Tensor RunAdjoint(const at::Tensor& y, int64_t dim, const DimTile& tile) {
  const Run run(tile);
  std::vector<int64_t> shape = y.sizes().vec();
  shape[dim] = tile.extent;
  at::Tensor x = at::zeros(shape, y.options());
  if (run.head > 0) x.narrow(dim, tile.start, run.head).add_(y.narrow(dim, 0, run.head));
  if (run.times > 0) {
    x.add_(SumOfBlocks(y.narrow(dim, run.head, run.times * tile.extent), dim, run.times, tile.extent));
  }
  if (run.tail > 0) x.narrow(dim, 0, run.tail).add_(y.narrow(dim, tile.length - run.tail, run.tail));
  return x;
}

}  // namespace

absl::StatusOr<Layout> Repeat::OutputLayout(const Layout& x, const std::vector<int64_t>& repeats) {
  ADJOIN_ASSIGN_OR_RETURN(std::vector<int64_t> shape, RepeatedShape(x.shape(), repeats));
  return Tiling::OutputLayout("repeat", x, std::move(shape));
}

absl::StatusOr<std::unique_ptr<Repeat>> Repeat::Create(Communicator* communicator, const Layout& x,
                                                       const std::vector<int64_t>& repeats, Movement::Options options) {
  ADJOIN_ASSIGN_OR_RETURN(const Layout y, OutputLayout(x, repeats));
  return CreateTo(communicator, x, y, std::move(options));
}

absl::StatusOr<std::unique_ptr<Repeat>> Repeat::CreateTo(Communicator* communicator, const Layout& x, const Layout& y,
                                                         Movement::Options options) {
  ADJOIN_ASSIGN_OR_RETURN(Parts parts, Prepare("repeat", communicator, x, y, std::move(options)));
  return std::unique_ptr<Repeat>(new Repeat(std::move(parts)));
}

Repeat::Repeat(Parts parts) : TilingOperator(std::move(parts)) {
  if (VolumeOf(output_shape()) == 0) return;
  for (int d = 0; d < tiling().new_dims(); ++d) tiles_.push_back({1, 0, output_shape()[d]});
  for (const DimTile& tile : tiling().TilesOf(rank())) tiles_.push_back(tile);
}

at::Tensor Repeat::Tile(const at::Tensor& x) const {
  at::Tensor y = x;
  std::vector<int64_t> repeats;
  for (std::size_t d = 0; d < tiles_.size(); ++d) {
    if (IsWholeTiles(tiles_[d])) {
      repeats.push_back(tiles_[d].length / tiles_[d].extent);
    } else {
      y = RunOf(y, static_cast<int64_t>(d) - tiling().new_dims(), tiles_[d]);
      repeats.push_back(1);
    }
  }
  // LibTorch's repeat always copies; a run is a copy already.
  const bool done = y.dim() == static_cast<int64_t>(repeats.size()) && !y.is_same(x) &&
                    std::all_of(repeats.begin(), repeats.end(), [](int64_t times) { return times == 1; });
  return done ? y : y.repeat(repeats);
}

at::Tensor Repeat::TileAdjoint(const at::Tensor& y, const std::vector<int64_t>& read) const {
  at::Tensor x = y.clone(at::MemoryFormat::Contiguous);
  for (std::size_t d = 0; d < tiles_.size(); ++d) {
    const DimTile& tile = tiles_[d];
    const int64_t dim = static_cast<int64_t>(d);
    if (!IsWholeTiles(tile)) {
      x = RunAdjoint(x, dim, tile);
    } else if (tile.length != tile.extent) {
      x = SumOfBlocks(x, dim, tile.length / tile.extent, tile.extent);
    }
  }
  return x.reshape(read);
}

}  // namespace adjoin
