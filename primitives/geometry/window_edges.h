// What windows read beside a part that has a stride's inputs for each of its outputs. Then a kernel that pads the part
// as the whole input is padded returns the part's outputs; those at its edges lack what the neighbours' cells give.
//
//   Window w = *Window::Create({.kernel = 7, .stride = 2, .pad_lo = 3, .pad_hi = 3});
//   WindowEdges edges = *EdgesOf(w);
//   edges.before;   // the first 2 outputs read 3 cells before the part; these outputs read 9 cells in all
//   edges.after;    // the last one reads 2 cells after it, and 7 in all
#ifndef ADJOIN_PRIMITIVES_GEOMETRY_WINDOW_EDGES_H_
#define ADJOIN_PRIMITIVES_GEOMETRY_WINDOW_EDGES_H_

#include <cstdint>
#include <optional>

#include "primitives/geometry/window.h"

namespace adjoin {

// Whether a kernel adds what is around a whole input by itself: zeros, as many on one side as on the other.
bool IsPaddedAlike(const Window::Options& window);

struct WindowEdges {
  // All 0 where nothing is read there.
  struct Side {
    int64_t cells = 0;    // beside the part
    int64_t outputs = 0;  // that read any of them
    int64_t reads = 0;    // what these outputs read: a run of cells, at one end of which are those beside the part
  };
  Side before;
  Side after;  // at most as many cells as before
};

// Absent where such parts have no such kernel: with padding that differs on the two sides, with another boundary than
// zeros, or where the padded part has room for more or fewer outputs.
std::optional<WindowEdges> EdgesOf(const Window& window);

}  // namespace adjoin

#endif  // ADJOIN_PRIMITIVES_GEOMETRY_WINDOW_EDGES_H_
