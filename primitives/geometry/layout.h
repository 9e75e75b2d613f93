// How a global tensor is cut over ranks: split, broadcast or partial along each axis of a mesh.
//
//   // DistDL's partition 1x1x2x2 of a batch of 28x28 images over ranks 0..3
//   Layout x = *Layout::Partition({64, 1, 28, 28}, DType::kFloat32, {1, 1, 2, 2}, {0, 1, 2, 3});
//   x.BoxOf(1);                        // [0, 64) x [0, 1) x [0, 14) x [14, 28)
//   x.Dual();                          // the layout of its gradient: S stays, B and P(sum) are exchanged
//
// Source: DistDL's partitions and OneFlow's SBP placements; the dual follows from the inner product that sums every
// rank's cells, redundant copies included.
#ifndef ADJOIN_PRIMITIVES_GEOMETRY_LAYOUT_H_
#define ADJOIN_PRIMITIVES_GEOMETRY_LAYOUT_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "primitives/geometry/box.h"
#include "primitives/geometry/dtype.h"
#include "primitives/geometry/mesh.h"

namespace adjoin {

enum class ReduceOp { kSum, kMax, kMin };

// What one mesh axis does to a tensor.
struct Placement {
  enum class Kind { kSplit, kBroadcast, kPartial };
  Kind kind = Kind::kBroadcast;
  int dim = -1;                      // a split: the tensor dim that is cut
  ReduceOp reduce = ReduceOp::kSum;  // a partial: how its terms combine

  static Placement Split(int dim) { return {Kind::kSplit, dim, ReduceOp::kSum}; }
  static Placement Broadcast() { return {Kind::kBroadcast, -1, ReduceOp::kSum}; }
  static Placement Partial(ReduceOp reduce = ReduceOp::kSum) { return {Kind::kPartial, -1, reduce}; }
  // "S(2)", "B", "P(sum)" (also "P"), "P(max)", "P(min)".
  static absl::StatusOr<Placement> Parse(absl::string_view text);
  std::string ToString() const;
  friend bool operator==(const Placement& a, const Placement& b) {
    return a.kind == b.kind && a.dim == b.dim && a.reduce == b.reduce;
  }
  friend bool operator!=(const Placement& a, const Placement& b) { return !(a == b); }
};

// The sizes into which balanced cuts divide `n`: n / parts each, the first n % parts one more.
std::vector<int64_t> BalancedSizes(int64_t n, int64_t parts);

// A value: copies are cheap enough, methods are const, equal layouts compare equal.
class Layout {
 public:
  // Sizes of the parts of a tensor dim, in row-major order of the mesh axes that split it; they sum to the extent, and
  // zeros are allowed. A split dim that is absent is cut evenly: over the outer axis, then each part over the inner.
  // On a mesh with weights (Mesh::WithWeights) it is cut in their proportion, likewise from the outer axis to the
  // inner, each part at least 1 where the even cut has none below 1 (rank_weights.h). A coordinate weighs what its
  // ranks do together, the sum: they share its part along the other axes. Every coordinate has as many ranks as the
  // others, so that means would give the same proportion.
  using Cuts = std::map<int, std::vector<int64_t>>;

  // `placements` has one entry per mesh axis.
  // Errors: kInvalidArgument (negative extent, a placement of a dim that does not exist, wrong number of placements,
  // cuts of a dim that is not split, whose number is not the product of its axes or whose sum is not the extent).
  static absl::StatusOr<Layout> Create(std::vector<int64_t> shape, DType dtype, Mesh mesh,
                                       std::vector<Placement> placements, Cuts cuts = {});
  // DistDL's form: `partition` has one number of parts per tensor dim; `ranks` in row-major order. Every dim becomes a
  // mesh axis, also where it has one part, so that layouts of one partition share their axes.
  static absl::StatusOr<Layout> Partition(std::vector<int64_t> shape, DType dtype, std::vector<int64_t> partition,
                                          std::vector<int> ranks, Cuts cuts = {});
  // The whole tensor on one rank: B on a mesh of shape {1}. The rank and the extents are not negative.
  static Layout Owner(std::vector<int64_t> shape, DType dtype, int rank);
  // The whole tensor on every one of `ranks` (distinct, at least one); B, or P for `Dual` of it.
  static absl::StatusOr<Layout> Replicated(std::vector<int64_t> shape, DType dtype, std::vector<int> ranks);

  const std::vector<int64_t>& shape() const { return shape_; }
  int dims() const { return static_cast<int>(shape_.size()); }
  DType dtype() const { return dtype_; }
  const Mesh& mesh() const { return mesh_; }
  const std::vector<Placement>& placements() const { return placements_; }
  // Boundaries of a dim's parts: parts + 1 numbers from 0 to the extent ({0, extent} where it is not split).
  const std::vector<int64_t>& Boundaries(int dim) const { return boundaries_[dim]; }
  // Number of parts of a dim: the product of the mesh axes that split it.
  int64_t Parts(int dim) const { return static_cast<int64_t>(boundaries_[dim].size()) - 1; }
  // The mesh axes that split `dim`, outer first.
  std::vector<int> AxesOf(int dim) const;
  bool HasKind(Placement::Kind kind) const;  // on an axis of size above 1

  // The global indices that `rank` holds; Box::Nothing for a rank outside the mesh (of a scalar, which has no empty
  // box, ask mesh().Has).
  Box BoxOf(int rank) const;
  std::vector<int64_t> LocalShape(int rank) const { return BoxOf(rank).Shape(); }
  // Which part of `dim` the rank at `coords` holds.
  int64_t PartOf(int dim, const std::vector<int64_t>& coords) const;

  // Errors: kInvalidArgument for P(max) and P(min), which have no dual.
  absl::StatusOr<Layout> Dual() const;
  // The same mesh and placements for another shape with the same number of dims; split dims whose extent changed are
  // cut as Create cuts absent ones. Errors: kInvalidArgument (another number of dims, a negative extent).
  absl::StatusOr<Layout> WithShape(std::vector<int64_t> shape) const;
  // The same shape, mesh and parts with other placements, which split the same dims into as many parts. Errors: as
  // Create.
  absl::StatusOr<Layout> WithPlacements(std::vector<Placement> placements) const;
  Layout WithDType(DType dtype) const;

  // "float32 64x1x28x28 on 1x1x2x2 [0 1 2 3] S(0) S(1) S(2) S(3)"; cuts that are not balanced follow: "cut 2:9,19".
  std::string ToString() const;
  friend bool operator==(const Layout& a, const Layout& b);
  friend bool operator!=(const Layout& a, const Layout& b) { return !(a == b); }

 private:
  Layout(std::vector<int64_t> shape, DType dtype, Mesh mesh, std::vector<Placement> placements)
      : shape_(std::move(shape)), dtype_(dtype), mesh_(std::move(mesh)), placements_(std::move(placements)) {}

  std::vector<int64_t> shape_;
  DType dtype_;
  Mesh mesh_;
  std::vector<Placement> placements_;
  std::vector<std::vector<int64_t>> boundaries_;  // per tensor dim
};

// The sizes of the parts of a dim, in order, as Layout::Cuts has them.
std::vector<int64_t> PartSizes(const Layout& layout, int dim);

}  // namespace adjoin

#endif  // ADJOIN_PRIMITIVES_GEOMETRY_LAYOUT_H_
