// Expand and repeat on global tensors, as integers: output shape, output layout, and which cells of the input each
// rank reads.
//
//   const Layout x = ...;                                              // 4x3x1x2 on mesh 2: S(3)
//   const std::vector<int64_t> shape = *ExpandedShape(x.shape(), {2, -1, -1, 4, -1});   // {2, 4, 3, 4, 2}
//   const Layout y = *Tiling::OutputLayout("expand", x, shape);        // S(4), cut as x
//   const Tiling tiling = *Tiling::Create("expand", x, y);
//   tiling.moves();                                                    // false: every rank holds what it reads
//
// y is x laid out as tiles: in each dim y[j] = x[j mod n], where n is x's extent; dims of x are the last ones of y, and
// before them come new dims, in which every index reads the whole of x. So y's extents are multiples of x's, zero
// included; expand is the case n = 1. A dim *changes* if it is new or its extent is another one.
//
// What is legal on each axis of the mesh, which is the same for x and y (d, e: dims as y counts them):
//
//   x                                     y
//   P(sum)                                P(sum)
//   S(d) of a dim that does not change    S(d), the same cuts
//   S(d) of a dim that changes            S(e) of any dim that changes, B, or P(sum)
//   B                                     S(e) of any dim that changes, or B
//
// Nothing moves where every rank holds what it reads: whenever x does not split a dim that changes, when one rank has
// all of that dim, and when y's parts are whole parts of x's (the copies are along an outer axis of y's split along
// which x is B). From S(d) to P(sum) nothing moves either, but each rank then has y's whole extent, zeros where it
// held nothing.
#ifndef ADJOIN_PRIMITIVES_GEOMETRY_TILING_H_
#define ADJOIN_PRIMITIVES_GEOMETRY_TILING_H_

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "primitives/geometry/distribution.h"
#include "primitives/geometry/layout.h"

namespace adjoin {

// The shape of PyTorch's x.expand(sizes): -1 keeps the extent of a dim that exists.
// Errors: kInvalidArgument (fewer sizes than dims; -1 for a new dim; another negative size; a dim whose extent is not 1
// and not the size).
absl::StatusOr<std::vector<int64_t>> ExpandedShape(const std::vector<int64_t>& shape,
                                                   const std::vector<int64_t>& sizes);
// The shape of PyTorch's x.repeat(repeats).
// Errors: kInvalidArgument (fewer repeats than dims; a negative one; an extent beyond 63 bits).
absl::StatusOr<std::vector<int64_t>> RepeatedShape(const std::vector<int64_t>& shape,
                                                   const std::vector<int64_t>& repeats);

// In one dim: cell j of a rank's part of y, 0 <= j < length, is cell (start + j) mod extent of the tensor that it
// reads.
struct DimTile {
  int64_t extent = 0;
  int64_t start = 0;
  int64_t length = 0;
  friend bool operator==(const DimTile& a, const DimTile& b) {
    return a.extent == b.extent && a.start == b.start && a.length == b.length;
  }
};

class Tiling {
 public:
  // The default output of `shape`: every axis keeps its placement, S(d) of x's dim d following it behind the new
  // dims. A dim that does not change keeps its cuts. One that does, and is cut evenly, stays cut evenly; of other
  // cuts each part grows by the same factor, so that a tensor on one rank stays there. `what` ("expand") opens
  // messages. Errors: kInvalidArgument (an extent is no multiple of x's; x has P(max) or P(min)).
  static absl::StatusOr<Layout> OutputLayout(absl::string_view what, const Layout& x, std::vector<int64_t> shape);

  // Errors: kInvalidArgument (as OutputLayout; meshes or dtypes differ; an axis or cuts that are not legal).
  static absl::StatusOr<Tiling> Create(absl::string_view what, const Layout& x, const Layout& y);

  const Layout& x() const { return x_; }
  const Layout& y() const { return y_; }
  int new_dims() const { return y_.dims() - x_.dims(); }
  // True where a rank's part of y is to be made from other cells than its part of x. The same on every rank.
  bool moves() const { return needed_.has_value(); }
  // What each rank reads, as a distribution of x: each cell once, in the order in which y first has it; nothing where
  // its part of y is empty. Where nothing moves, x itself.
  Distribution Needed() const { return needed_.has_value() ? *needed_ : Distribution::Of(x_); }
  // How a rank makes its part of y, which is not empty, from its part of Needed(); one entry per dim of x.
  std::vector<DimTile> TilesOf(int rank) const;

 private:
  Tiling(Layout x, Layout y) : x_(std::move(x)), y_(std::move(y)) {}
  std::vector<DimView> ReadBy(int rank) const;
  bool HoldsWhatItReads(int rank) const;
  absl::StatusOr<Distribution> BuildNeeded() const;

  Layout x_;
  Layout y_;
  std::optional<Distribution> needed_;
};

}  // namespace adjoin

#endif  // ADJOIN_PRIMITIVES_GEOMETRY_TILING_H_
