// The layout of a tensor that is given another shape with as many cells, in row-major order
// (torch.Tensor.reshape), and no cell leaves its rank.
//
//   const Layout x = *Layout::Partition({2, 12, 5}, DType::kFloat32, {1, 2, 1}, {0, 1});
//   *Reshaped(x, {2, 60});          // cut 1:30,30
//   *Reshaped(x, {2, 4, 3, 5});     // cut 1:2,2
//   Reshaped(x, {2, 5, 12});        // an error: cells 0 to 29 are no block of 5 rows of 12
//   *Reshapeable(x, {2, 5, 12});    // a layout of x from which it is possible: cut 1:12,0, all on the first rank
//
// Neighbouring dims of the two shapes that have as many cells belong together: 12 and 5 become 60, the batch stays what
// it is. Within such a group, a rank's cells must be one block (a box) of the result, and all blocks together a grid.
// Most often that means that only the outermost of the group's dims is cut, where the result's dims inside it come out
// whole. Several axes may cut one group, and then there is one axis per dim of the result.
#ifndef ADJOIN_PRIMITIVES_GEOMETRY_RESHAPE_H_
#define ADJOIN_PRIMITIVES_GEOMETRY_RESHAPE_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "primitives/geometry/layout.h"

namespace adjoin {

// Returns the layout of the reshaped tensor in which each rank has the same cells. Axes with B or P keep these, and so
// do the axes of dims that stay as they are; ranks without cells may be left out. Errors: kInvalidArgument (another
// number of cells; parts that are no blocks or no grid: names the dims).
absl::StatusOr<Layout> Reshaped(const Layout& x, const std::vector<int64_t>& shape);

// A layout of x's shape for which Reshaped succeeds, on x's ranks: axes with B or P stay, and so do those of groups
// where it is possible. Any other group is cut as evenly as possible in its first dim only, into as many parts as
// before. Where that dim is too short, fewer parts are shared by several ranks each, which cut the longest of the dims
// that stay as they are (but dim 0, the batch); where those are too short as well, some ranks have no cells. Errors:
// kInvalidArgument (another number of cells).
absl::StatusOr<Layout> Reshapeable(const Layout& x, const std::vector<int64_t>& shape);

}  // namespace adjoin

#endif  // ADJOIN_PRIMITIVES_GEOMETRY_RESHAPE_H_
