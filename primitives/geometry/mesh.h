// Ranks arranged in an n-dimensional array.
//
//   Mesh mesh = *Mesh::Create({2, 2}, {4, 5, 6, 7}, {"h", "w"});
//   mesh.CoordsOf(6);        // {1, 0}
//   mesh.Along(1, 6);        // {6, 7}: the ranks that differ from rank 6 along axis 1 only
#ifndef ADJOIN_PRIMITIVES_GEOMETRY_MESH_H_
#define ADJOIN_PRIMITIVES_GEOMETRY_MESH_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "primitives/geometry/rank_weights.h"

namespace adjoin {

class Mesh {
 public:
  // `ranks` in row-major order of `shape`; any distinct non-negative numbers. `axis_names` may be absent.
  // Errors: kInvalidArgument (a size below 1, the product is not the number of ranks, a rank twice, names that are not
  // one per axis).
  static absl::StatusOr<Mesh> Create(std::vector<int64_t> shape, std::vector<int> ranks,
                                     std::vector<std::string> axis_names = {});
  // Ranks 0 .. product-1.
  static absl::StatusOr<Mesh> Create(std::vector<int64_t> shape);
  // The same mesh, on which layouts cut in the proportion of these weights what they do not size. Null, or weights that
  // are all the same: evenly. Meshes of the same ranks are equal whatever their weights are.
  Mesh WithWeights(std::shared_ptr<const RankWeights> weights) const;

  int axes() const { return static_cast<int>(shape_.size()); }
  int64_t size() const { return static_cast<int64_t>(ranks_->list.size()); }
  const std::vector<int64_t>& shape() const { return shape_; }
  const std::vector<int>& ranks() const { return ranks_->list; }
  const std::vector<std::string>& axis_names() const { return axis_names_; }
  const std::shared_ptr<const RankWeights>& weights() const { return weights_; }  // null: evenly

  // Absent for a rank outside the mesh.
  std::optional<std::vector<int64_t>> CoordsOf(int rank) const;
  std::optional<int64_t> IndexOf(int rank) const;  // row-major position
  bool Has(int rank) const { return IndexOf(rank).has_value(); }
  // `coords` are within the shape.
  int RankAt(const std::vector<int64_t>& coords) const;
  // The ranks along `axis` through `rank`, which is in the mesh; in order of their coordinate.
  std::vector<int> Along(int axis, int rank) const;

  std::string ToString() const;  // "2x2 [4 5 6 7]"
  friend bool operator==(const Mesh& a, const Mesh& b) {
    return a.shape_ == b.shape_ && (a.ranks_ == b.ranks_ || a.ranks_->list == b.ranks_->list);
  }
  friend bool operator!=(const Mesh& a, const Mesh& b) { return !(a == b); }

 private:
  Mesh() = default;
  std::vector<int64_t> shape_;
  // Never changed, so that copies of a mesh of thousands of ranks cost nothing.
  struct Ranks {
    std::vector<int> list;
    bool consecutive = true;                     // list[i] is list[0] + i
    absl::flat_hash_map<int, int64_t> index_of;  // empty where consecutive
  };
  std::shared_ptr<const Ranks> ranks_;
  std::vector<std::string> axis_names_;
  std::shared_ptr<const RankWeights> weights_;
};

}  // namespace adjoin

#endif  // ADJOIN_PRIMITIVES_GEOMETRY_MESH_H_
