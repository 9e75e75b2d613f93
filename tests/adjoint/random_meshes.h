// Random meshes on at most so many ranks.
#ifndef ADJOIN_TESTS_ADJOINT_RANDOM_MESHES_H_
#define ADJOIN_TESTS_ADJOINT_RANDOM_MESHES_H_

#include "primitives/geometry/mesh.h"
#include "primitives/geometry/random_cases.h"

namespace adjoin {

// Some of the ranks 0 .. ranks-1, in any order, as an array of zero to three axes.
Mesh RandomMeshOf(Draw& draw, int ranks);

}  // namespace adjoin

#endif  // ADJOIN_TESTS_ADJOINT_RANDOM_MESHES_H_
