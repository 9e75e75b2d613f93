// Who holds which cells of a global tensor, and where in the local memory: the two ends of every movement.
//
//   Distribution from = Distribution::Of(x_layout);
//   Distribution to = *Distribution::Reads(x_layout, {{2, w_h}, {3, w_w}}, y_layout);   // what y's windows read of x
//
// A Layout gives every rank one box at offset 0. The windows of a convolution give every rank a tensor that may overlap
// its neighbours', wrap around, and hold cells that no global index covers (the zero boundary).
#ifndef ADJOIN_PRIMITIVES_GEOMETRY_DISTRIBUTION_H_
#define ADJOIN_PRIMITIVES_GEOMETRY_DISTRIBUTION_H_

#include <cstdint>
#include <map>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "primitives/geometry/box.h"
#include "primitives/geometry/dtype.h"
#include "primitives/geometry/layout.h"
#include "primitives/geometry/mesh.h"
#include "primitives/geometry/need.h"
#include "primitives/geometry/reading.h"

namespace adjoin {

// A box of global indices, stored in a local tensor with its low corner at `at`.
struct Piece {
  Box box;
  std::vector<int64_t> at;
  friend bool operator==(const Piece& a, const Piece& b) { return a.box == b.box && a.at == b.at; }
};

// One rank's local tensor. Pieces do not overlap in local memory; cells that no piece covers are fill.
struct LocalView {
  std::vector<int64_t> shape;
  std::vector<Piece> pieces;  // none is empty
  friend bool operator==(const LocalView& a, const LocalView& b) { return a.shape == b.shape && a.pieces == b.pieces; }
};

// One dim of a local tensor: `extent` cells, some of them covered by segments.
struct DimView {
  int64_t extent = 0;
  std::vector<Segment> segments;
};

// The local tensor whose pieces are every combination of the dims' segments, in row-major order.
LocalView ProductView(const std::vector<DimView>& dims);

// Ok where Distribution::Reads is defined. Errors: as Reads.
absl::Status CheckReadings(const Layout& x, const std::map<int, Reading>& readings, const Layout& y);

class Distribution {
 public:
  static Distribution Of(const Layout& layout);

  // The parts that the ranks of `y` read of a tensor with layout `x`: in the dims named in `readings`, what the outputs
  // that `y` gives the rank read (fetched extents, boundary included); in every other dim, what the rank holds of x.
  // `x` and `y` have the same mesh and the same placement on every axis.
  // Errors: kInvalidArgument where they do not, or where y's extent is not the reading's output size.
  static absl::StatusOr<Distribution> Reads(const Layout& x, const std::map<int, Reading>& readings, const Layout& y);

  // Any views, one per rank in row-major order of the mesh, of a tensor of `shape`. Along an axis that is B or P the
  // views are the same; along one that splits they may overlap, repeat cells, or leave some out (of a destination).
  // Errors: kInvalidArgument (as Layout::Create; another number of views; a piece that is empty, is outside the
  // global or the local tensor, or meets another one in local memory; views that differ along an axis that does not
  // split).
  static absl::StatusOr<Distribution> FromViews(std::vector<int64_t> shape, DType dtype, Mesh mesh,
                                                std::vector<Placement> placements, std::vector<LocalView> views);

  const Mesh& mesh() const { return mesh_; }
  const std::vector<Placement>& placements() const { return placements_; }
  const std::vector<int64_t>& global_shape() const { return shape_; }
  int dims() const { return static_cast<int>(shape_.size()); }
  DType dtype() const { return dtype_; }
  // The view of a rank outside the mesh is empty: shape (0, ..., 0), no pieces.
  const LocalView& View(int rank) const;
  // The view of the rank at a row-major position of the mesh.
  const LocalView& ViewAt(int64_t position) const { return views_[position]; }
  // B and P(sum) exchanged. Errors: kInvalidArgument for P(max) and P(min).
  absl::StatusOr<Distribution> Dual() const;

  friend bool operator==(const Distribution& a, const Distribution& b);

 private:
  explicit Distribution(const Layout& layout);  // without views
  Mesh mesh_;
  std::vector<Placement> placements_;
  std::vector<int64_t> shape_;
  DType dtype_;
  std::vector<LocalView> views_;  // per mesh position, row-major
  LocalView outside_;
};

}  // namespace adjoin

#endif  // ADJOIN_PRIMITIVES_GEOMETRY_DISTRIBUTION_H_
