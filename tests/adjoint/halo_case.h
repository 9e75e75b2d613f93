// A random halo exchange with its truth: what the windows read, gathered cell by cell from the global tensor.
#ifndef ADJOIN_TESTS_ADJOINT_HALO_CASE_H_
#define ADJOIN_TESTS_ADJOINT_HALO_CASE_H_

#include "primitives/geometry/dtype.h"
#include "primitives/geometry/random_cases.h"
#include "tests/adjoint/movement_case.h"

namespace adjoin {

// One to three windowed dims behind none to two others, any boundary; every fourth filled with -3 instead of 0.
MovementCase HaloCase(Draw& draw, int ranks, DType dtype);

}  // namespace adjoin

#endif  // ADJOIN_TESTS_ADJOINT_HALO_CASE_H_
