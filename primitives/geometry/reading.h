// What the outputs of a layer read of its input in one dim: a sliding window, a transposed or an adaptive one, the
// edges of a part, a selection of cells, or an interpolation. The one interface through which halo exchanges are made.
//
//   Reading reading = *Window::Create({.kernel = 3, .pad_lo = 1, .pad_hi = 1});
//   *reading.OutputSize(8);                  // 8
//   Need need = reading.Needed({4, 8}, 8);   // 5 cells: [3, 8) and one of fill
//   reading.As<Window>()->options().kernel;  // 3
#ifndef ADJOIN_PRIMITIVES_GEOMETRY_READING_H_
#define ADJOIN_PRIMITIVES_GEOMETRY_READING_H_

#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "primitives/geometry/adaptive_window.h"
#include "primitives/geometry/box.h"
#include "primitives/geometry/edge_window.h"
#include "primitives/geometry/index_selection.h"
#include "primitives/geometry/interpolation.h"
#include "primitives/geometry/need.h"
#include "primitives/geometry/transposed_window.h"
#include "primitives/geometry/window.h"

namespace adjoin {

class Reading {
 public:
  // Any of them is a reading.
  Reading(Window window) : kind_(std::move(window)) {}
  Reading(TransposedWindow window) : kind_(std::move(window)) {}
  Reading(AdaptiveWindow window) : kind_(std::move(window)) {}
  Reading(EdgeWindow window) : kind_(std::move(window)) {}
  Reading(IndexSelection selection) : kind_(std::move(selection)) {}
  Reading(Interpolation interpolation) : kind_(std::move(interpolation)) {}

  // Outputs of an input of n cells.
  // Errors: kInvalidArgument (as of each kind; an interpolation of another extent).
  absl::StatusOr<int64_t> OutputSize(int64_t n) const;
  // The input indices that `outputs`, within [0, OutputSize(n)), read: their hull; a window's may be outside [0, n).
  Interval Reads(Interval outputs, int64_t n) const;
  // The same, resolved to indices within [0, n).
  Need Needed(Interval outputs, int64_t n) const;
  // Where what is fetched is not yet what is read (a mirrored boundary, a selection): cell i of that is cell
  // IndexMap[i] of what is fetched. Empty where they are the same tensor. As long as what is read: for a rank's own
  // part.
  std::vector<int64_t> IndexMap(Interval outputs, int64_t n) const;
  std::string ToString() const;

  // Null where it is of another kind.
  template <typename Kind>
  const Kind* As() const {
    return std::get_if<Kind>(&kind_);
  }

 private:
  std::variant<Window, TransposedWindow, AdaptiveWindow, EdgeWindow, IndexSelection, Interpolation> kind_;
};

}  // namespace adjoin

#endif  // ADJOIN_PRIMITIVES_GEOMETRY_READING_H_
