// Random inputs and outputs of expand and repeat.
//
//   const auto [x, y] = RandomTiling(draw, RandomMesh(draw), /*only_ones=*/true, DType::kFloat64);   // an expand
#ifndef ADJOIN_PRIMITIVES_GEOMETRY_RANDOM_TILINGS_H_
#define ADJOIN_PRIMITIVES_GEOMETRY_RANDOM_TILINGS_H_

#include <utility>

#include "primitives/geometry/dtype.h"
#include "primitives/geometry/layout.h"
#include "primitives/geometry/mesh.h"
#include "primitives/geometry/random_cases.h"

namespace adjoin {

// A layout and a legal output of tiling it: the default one, or any placements and cuts of what changes. With
// `only_ones` only dims of extent 1 change.
std::pair<Layout, Layout> RandomTiling(Draw& draw, const Mesh& mesh, bool only_ones, DType dtype);

}  // namespace adjoin

#endif  // ADJOIN_PRIMITIVES_GEOMETRY_RANDOM_TILINGS_H_
