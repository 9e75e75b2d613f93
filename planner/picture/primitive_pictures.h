// Pictures of the mathematics, for the documentation: layouts and movements themselves, without a job.
#ifndef ADJOIN_PLANNER_PICTURE_PRIMITIVE_PICTURES_H_
#define ADJOIN_PLANNER_PICTURE_PRIMITIVE_PICTURES_H_

#include <string>

#include "absl/status/statusor.h"

namespace adjoin {

// All pairs of S(0), S(1), B and P on a mesh of 2 x 2 ranks, of a tensor of 8 x 8 cells, with what each rank holds.
absl::StatusOr<std::string> PlacementsSvg();

// The halo exchange of one convolution: 12 x 12 cells over 2 x 2 ranks, kernel 3, padding 1. For each rank what it
// holds, what it reads, and the adjoint, which adds the halo's cells into their owners.
absl::StatusOr<std::string> HaloExchangeSvg();

}  // namespace adjoin

#endif  // ADJOIN_PLANNER_PICTURE_PRIMITIVE_PICTURES_H_
