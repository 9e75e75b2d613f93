// Parses Dataset.augment, and finds the dims that it and Dataset.blocks change.
//
//   ADJOIN_ASSIGN_OR_RETURN(Augment augment, ParseAugment(dataset));   // augment: "flip(0)" augment: "shift(4)"
//   augment.flip;                  // {0}: the last dim
//   augment.shift;                 // 4
//   SpatialDims(dataset);          // 2 of fields [3, 32, 32] and []: the last two dims of every field that has as many
#ifndef ADJOIN_PLANNER_SPEC_AUGMENT_H_
#define ADJOIN_PLANNER_SPEC_AUGMENT_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/job.pb.h"

namespace adjoin {

struct Augment {
  std::vector<int> flip;  // spatial dims, counted from the last
  int64_t shift = 0;      // 0: none

  bool empty() const { return flip.empty() && shift == 0; }
};

// Errors: kInvalidArgument, at the entry ("augment[1]"): an unknown word, a number out of range, a dim that no field
// has, the same twice.
absl::StatusOr<Augment> ParseAugment(const Dataset& dataset);

// Returns how many spatial dims the fields have: as many as a block has extents; without blocks, all dims but the first
// of the field that has most.
int SpatialDims(const Dataset& dataset);

// Returns true where blocks and augmentation change a field with so many dims: there are spatial dims, and the field
// has them.
bool HasSpatialDims(const Dataset& dataset, int dims);

// Returns true where dim 0 of the field counts channels: it comes before the spatial dims.
bool HasChannels(const Dataset& dataset, const Field& field);

}  // namespace adjoin

#endif  // ADJOIN_PLANNER_SPEC_AUGMENT_H_
