// One dim of a layout, or of what windows read of it, as runs of global indices by part; and what the parts of two such
// dims share.
//
//   const std::vector<PartOverlap> shared = OverlapsOf(PartsOf(x, 2), PartsOf(y, 2));
//   shared[0].elements;   // indices of dim 2 that part p of x and part q of y both have
#ifndef ADJOIN_PRIMITIVES_GEOMETRY_DIM_PARTS_H_
#define ADJOIN_PRIMITIVES_GEOMETRY_DIM_PARTS_H_

#include <cstdint>
#include <vector>

#include "primitives/geometry/layout.h"
#include "primitives/geometry/reading.h"

namespace adjoin {

// A run of global indices of a dim, that a part has at `at` of its tensor.
struct PartRun {
  int64_t lo = 0, hi = 0, at = 0;
  int part = 0;
};
// One dim on one side.
struct DimParts {
  std::vector<int64_t> extents;  // by part
  std::vector<PartRun> runs;     // by part, and in a part by `at`
  std::vector<int> first_run;    // by part, and one more: where its runs begin
  bool plain = true;             // the runs are the parts themselves
};
// What part p of the source and part q of the destination share in one dim.
struct PartOverlap {
  int p = 0, q = 0;
  int64_t elements = 0;
  int runs = 0;
};

// How `layout` cuts the dim.
DimParts PartsOf(const Layout& layout, int dim);
// What the parts of `y` read of the dim of `x`: an index may be in several parts, and several times in one.
DimParts PartsOf(const Layout& x, const Reading& reading, const Layout& y, int dim);
// The pairs of parts that share indices, sorted by q, then p.
std::vector<PartOverlap> OverlapsOf(const DimParts& from, const DimParts& to);

}  // namespace adjoin

#endif  // ADJOIN_PRIMITIVES_GEOMETRY_DIM_PARTS_H_
