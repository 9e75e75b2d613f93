// Cuts a transfer into messages of bounded size, so that no end needs memory for all of it at once.
//
//   for (const Transfer& segment : SegmentsOf(transfer, /*most=*/65536)) ...   // each has at most 65,536 elements
#ifndef ADJOIN_PRIMITIVES_GEOMETRY_TRANSFER_SEGMENTS_H_
#define ADJOIN_PRIMITIVES_GEOMETRY_TRANSFER_SEGMENTS_H_

#include <cstdint>
#include <vector>

#include "primitives/geometry/exchange_schedule.h"

namespace adjoin {

// Segments of at most `most` elements (at least 1) that are together `transfer`, in the order of its message. They
// depend on the sizes of its regions alone, so both ends find the same.
std::vector<Transfer> SegmentsOf(const Transfer& transfer, int64_t most);

}  // namespace adjoin

#endif  // ADJOIN_PRIMITIVES_GEOMETRY_TRANSFER_SEGMENTS_H_
