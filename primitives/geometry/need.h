// What one rank needs of its input in one dim, for the outputs that it computes.
#ifndef ADJOIN_PRIMITIVES_GEOMETRY_NEED_H_
#define ADJOIN_PRIMITIVES_GEOMETRY_NEED_H_

#include <cstdint>
#include <vector>

#include "primitives/geometry/box.h"

namespace adjoin {

// A run of global indices and its position in the local tensor.
struct Segment {
  Interval source;
  int64_t at = 0;
  friend bool operator==(const Segment& a, const Segment& b) { return a.source == b.source && a.at == b.at; }
};

// The local tensor that a layer's kernel reads has `extent` cells; each is covered by a segment, or is on the zero
// boundary and is filled. Reflect and replicate fetch each image once: then the fetched tensor has `fetched` cells, and
// Window::IndexMap says which of them each cell of the kernel's tensor is.
struct Need {
  int64_t extent = 0;
  int64_t fetched = 0;
  std::vector<Segment> segments;  // in order of `at`; offsets in the fetched tensor

  // The cells of `reads`, all of them within the input.
  static Need Of(Interval reads) {
    Need need{reads.size(), reads.size(), {}};
    if (!reads.empty()) need.segments.push_back({reads, 0});
    return need;
  }
};

}  // namespace adjoin

#endif  // ADJOIN_PRIMITIVES_GEOMETRY_NEED_H_
