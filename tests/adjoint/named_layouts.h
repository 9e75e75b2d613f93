// Random pairs of layouts that the named movements go between.
//
//   const LayoutPair pair = RandomAllGather(draw, {4, 6}, mesh, DType::kFloat64);
//   auto movement = AllGather::Create(&communicator, pair.from, pair.to, {.id = 1});
//
// Cuts are uneven, parts may be empty, and axes of size 1 may have any placement.
#ifndef ADJOIN_TESTS_ADJOINT_NAMED_LAYOUTS_H_
#define ADJOIN_TESTS_ADJOINT_NAMED_LAYOUTS_H_

#include <cstdint>
#include <vector>

#include "primitives/geometry/dtype.h"
#include "primitives/geometry/layout.h"
#include "primitives/geometry/mesh.h"
#include "primitives/geometry/random_cases.h"

namespace adjoin {

struct LayoutPair {
  Layout from;
  Layout to;
};

// From a layout without partials to the one that repeats it: some B axes are one of their coordinates in the first.
LayoutPair RandomBroadcast(Draw& draw, const std::vector<int64_t>& shape, const Mesh& mesh, DType dtype);
// From one of the ranks 0 .. ranks-1 to every part of a split on `mesh`. At least one dim.
LayoutPair RandomScatter(Draw& draw, const std::vector<int64_t>& shape, const Mesh& mesh, int ranks, DType dtype);
// From any placements on `mesh` to the same with some splits gathered. At least one dim.
LayoutPair RandomAllGather(Draw& draw, const std::vector<int64_t>& shape, const Mesh& mesh, DType dtype);
// One axis of `mesh` (which may have none) changes the dim it splits, or not. At least two dims.
LayoutPair RandomAllToAll(Draw& draw, const std::vector<int64_t>& shape, const Mesh& mesh, DType dtype);
// Between two of the ranks 0 .. ranks-1, at times the same.
LayoutPair RandomSendReceive(Draw& draw, const std::vector<int64_t>& shape, int ranks, DType dtype);

}  // namespace adjoin

#endif  // ADJOIN_TESTS_ADJOINT_NAMED_LAYOUTS_H_
