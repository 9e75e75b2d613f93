// Finds a rank's own part of a tensor within what the rank reads of it, halo included.
//
//   MovementPlan halo = *MovementPlan::Build(Distribution::Of(x), *Distribution::Reads(x, readings, y), rank);
//   std::optional<Region> own = OwnPartIn(halo.direct());   // the part is this box of what is read
//   ReadsOwnPart(x, readings, y, rank);                     // own.has_value(), from the layouts alone
#ifndef ADJOIN_PRIMITIVES_GEOMETRY_OWN_PART_H_
#define ADJOIN_PRIMITIVES_GEOMETRY_OWN_PART_H_

#include <map>
#include <optional>

#include "primitives/geometry/exchange_schedule.h"
#include "primitives/geometry/layout.h"
#include "primitives/geometry/reading.h"

namespace adjoin {

// The box of the rank's destination tensor that holds its whole source tensor. Absent where the rank has no source, or
// does not keep all of it in one piece.
std::optional<Region> OwnPartIn(const ExchangeSchedule& schedule);

// Whether there is such a box in what `rank` reads of `x` for its outputs `y`. The arguments are as Distribution::Reads
// takes them.
bool ReadsOwnPart(const Layout& x, const std::map<int, Reading>& readings, const Layout& y, int rank);

}  // namespace adjoin

#endif  // ADJOIN_PRIMITIVES_GEOMETRY_OWN_PART_H_
