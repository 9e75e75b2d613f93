// Random numbers of the cells that a rank has of a tensor [batch, ...]: each belongs to the cell's place in the batch
// of the whole step, so that any cut, any number of ranks and any micro-batches draw the same.
//
//   // In a layer's Forward, `shape` global and `box` of what this rank computes:
//   const at::Tensor kept = PlacedKept(Draws(kPurposeDropout), place().first_sample, shape, box, /*p=*/0.1,
//   x.device()); return x.masked_fill(kept.logical_not(), 0) / 0.9;
//   // The same for all cells of a channel: the first two dims of shape and box.
//
// The number of cell (n, ...) has the index (first_sample + n) * cells of a sample + its row-major index in the sample.
// One block of the generator per number; on LibTorch's threads. Contiguous tensors of the box's shape,
// without graph: made on the CPU and copied to `device`. Pure; any thread.
#ifndef ADJOIN_LAYERS_PLACED_RANDOM_H_
#define ADJOIN_LAYERS_PLACED_RANDOM_H_

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

#include "primitives/geometry/box.h"
#include "primitives/random/philox.h"

namespace adjoin {

// Bool: UniformAt(index) >= p, which is true of a share of 1 - p. `shape`: global; of its dim 0 only that it is there
// counts.
at::Tensor PlacedKept(const RandomStream& stream, int64_t first_sample, const std::vector<int64_t>& shape,
                      const Box& box, double p, at::Device device = at::kCPU);

// Standard normal numbers, by Box and Muller's transform of pairs: with u = UniformAt(2 k), v = UniformAt(2 k + 1) and
// r = sqrt(-2 log(1 - u)), number 2 k is r cos(2 pi v) and number 2 k + 1 is r sin(2 pi v). Computed in float64,
// returned as `dtype`, a floating-point type.
at::Tensor PlacedNormals(const RandomStream& stream, int64_t first_sample, const std::vector<int64_t>& shape,
                         const Box& box, at::ScalarType dtype, at::Device device = at::kCPU);

}  // namespace adjoin

#endif  // ADJOIN_LAYERS_PLACED_RANDOM_H_
