// The layouts between which the parts of a dim travel in a ring.
//
//   Layout keys = *Layout::Partition({8, 4096, 64}, DType::kFloat32, {1, 4, 1}, {0, 1, 2, 3});
//   *RotatedParts(keys, /*dim=*/1, 1);       // rank 0 has part 1, rank 1 part 2, ..., rank 3 part 0
//
// A movement from RotatedParts(x, dim, s) to RotatedParts(x, dim, s + 1) brings each rank the part of the next one.
#ifndef ADJOIN_PRIMITIVES_GEOMETRY_ROTATION_H_
#define ADJOIN_PRIMITIVES_GEOMETRY_ROTATION_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "primitives/geometry/layout.h"

namespace adjoin {

// The same parts, where each rank holds the part of `dim` that is `by` further, modulo their number; every other dim as
// before. The parts are counted over all axes that split `dim` together. `by` is not negative.
// Errors: none of a layout that is valid (as Layout::Create).
absl::StatusOr<Layout> RotatedParts(const Layout& layout, int dim, int64_t by);

}  // namespace adjoin

#endif  // ADJOIN_PRIMITIVES_GEOMETRY_ROTATION_H_
