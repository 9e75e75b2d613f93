// The cells next to where a dim is cut: what neighbours exchange when each keeps its own cells where they are.
//
//   EdgeWindow inner = *EdgeWindow::Create({.before = 2, .after = 1, .inner = true});
//   EdgeWindow outer = *EdgeWindow::Create({.before = 2, .after = 1, .inner = false});
//   inner.Needed({4, 12}, 20);    // [4, 5) at 0 and [10, 12) at 1: the part's own first and last cells
//   outer.Needed({4, 12}, 20);    // [2, 4) at 0 and [12, 13) at 2: its neighbours'
//
// A movement from the inner edges of every part to the outer ones carries the halos of windows that read so many cells
// before their part and after it: a part's first cells are what the one before it reads after itself. Beyond the
// tensor's ends is fill.
#ifndef ADJOIN_PRIMITIVES_GEOMETRY_EDGE_WINDOW_H_
#define ADJOIN_PRIMITIVES_GEOMETRY_EDGE_WINDOW_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "primitives/geometry/box.h"
#include "primitives/geometry/need.h"

namespace adjoin {

class EdgeWindow {
 public:
  struct Options {
    int64_t before = 1;  // cells that are read before a part
    int64_t after = 1;   // and after it
    bool inner = true;
  };

  // Errors: kInvalidArgument for edges below 0 or above 2^31, and where there are none on either side.
  static absl::StatusOr<EdgeWindow> Create(const Options& options);

  const Options& options() const { return options_; }
  // n: there is an output for each input.
  absl::StatusOr<int64_t> OutputSize(int64_t n) const { return n; }
  // The part itself, or that and its neighbours' cells, possibly outside [0, n).
  Interval Reads(Interval part, int64_t n) const;
  // The cells of both edges, those before the part's middle first; nothing for an empty part. Inner edges of a part
  // that is shorter than that would share cells: they are not for it.
  Need Needed(Interval part, int64_t n) const;

  std::string ToString() const;  // "inner edges of 2", "outer edges of 2 before, 1 after"

 private:
  explicit EdgeWindow(const Options& options) : options_(options) {}
  Options options_;
};

}  // namespace adjoin

#endif  // ADJOIN_PRIMITIVES_GEOMETRY_EDGE_WINDOW_H_
