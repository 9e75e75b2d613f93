// One number for a movement between two distributions, by which ranks find out whether they mean the same one.
//
//   FingerprintOf(from, to) == FingerprintOf(theirs_from, theirs_to)     // the same shape, type, meshes, placements,
//   cells
#ifndef ADJOIN_PRIMITIVES_GEOMETRY_FINGERPRINT_H_
#define ADJOIN_PRIMITIVES_GEOMETRY_FINGERPRINT_H_

#include <cstdint>

#include "primitives/geometry/distribution.h"

namespace adjoin {

// Equal in every process for equal distributions (xxHash of everything that a schedule depends on); never 0.
uint64_t FingerprintOf(const Distribution& from, const Distribution& to);

}  // namespace adjoin

#endif  // ADJOIN_PRIMITIVES_GEOMETRY_FINGERPRINT_H_
