// What Dataset.augment says, and which dims of a field it and Dataset.blocks speak of.
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

// Errors: kInvalidArgument, at the entry ("augment[1]"): an unknown word, a number out of range, a dim that no field has, the
// same twice.
absl::StatusOr<Augment> ParseAugment(const Dataset& dataset);

// As many as a block has extents; without blocks, all dims but the first of the field that has most.
int SpatialDims(const Dataset& dataset);

// Whether blocks and augmentation reach a field with so many dims: it has the spatial dims, and there are some.
bool HasSpatialDims(const Dataset& dataset, int dims);

}  // namespace adjoin

#endif  // ADJOIN_PLANNER_SPEC_AUGMENT_H_
