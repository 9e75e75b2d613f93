// The cells next to where a dim is cut: what neighbours exchange when each keeps its own cells where they are.
//
//   EdgeWindow inner = *EdgeWindow::Create({.reach = 2, .inner = true});
//   EdgeWindow outer = *EdgeWindow::Create({.reach = 2, .inner = false});
//   inner.Needed({4, 12}, 20);    // [4, 6) at 0 and [10, 12) at 2: the part's own first and last cells
//   outer.Needed({4, 12}, 20);    // [2, 4) at 0 and [12, 14) at 2: its neighbours'
//
// A movement from the inner edges of every part to the outer ones carries the halos of windows of stride 1 that reach
// that far on both sides. Beyond the tensor's ends is fill.
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
    int64_t reach = 1;
    bool inner = true;
  };

  // Errors: kInvalidArgument for a reach below 1 or above 2^31.
  static absl::StatusOr<EdgeWindow> Create(const Options& options);

  const Options& options() const { return options_; }
  // n: there is an output for each input.
  absl::StatusOr<int64_t> OutputSize(int64_t n) const { return n; }
  // The part itself, or that and its neighbours' cells, possibly outside [0, n).
  Interval Reads(Interval part, int64_t n) const;
  // Twice the reach, the cells before the part's middle first; nothing for an empty part. Inner edges of a part that is
  // shorter than that would share cells: they are not for it.
  Need Needed(Interval part, int64_t n) const;

  std::string ToString() const;  // "inner edges of 2", "outer edges of 2"

 private:
  explicit EdgeWindow(const Options& options) : options_(options) {}
  Options options_;
};

}  // namespace adjoin

#endif  // ADJOIN_PRIMITIVES_GEOMETRY_EDGE_WINDOW_H_
