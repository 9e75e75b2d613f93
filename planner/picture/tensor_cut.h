// Which box of a tensor each rank holds and which halo it reads, as pictures need it.
//
//   ADJOIN_ASSIGN_OR_RETURN(TensorCut cut, TensorCut::Of(layout));
//   cut.boxes()[0].box;       // [0, 64) x [0, 1) x [0, 14) x [0, 14)
//   cut.boxes()[0].ranks;     // {0}; several where the tensor is B or P
//   ADJOIN_RETURN_IF_ERROR(cut.AddHalos(op));
//
// Boxes are Layout::BoxOf, halos Distribution::View: nothing is computed in a second way.
#ifndef ADJOIN_PLANNER_PICTURE_TENSOR_CUT_H_
#define ADJOIN_PLANNER_PICTURE_TENSOR_CUT_H_

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "primitives/geometry/box.h"
#include "primitives/geometry/layout.h"
#include "proto/plan.pb.h"

namespace adjoin {

struct CutBox {
  Box box;                 // not empty, but for a scalar's
  std::vector<int> ranks;  // that hold it, in the mesh's order: copies along B, terms of a sum along P
};

// Cells that a rank reads and does not hold.
struct HaloBox {
  int rank = 0;
  Box box;
};

class TensorCut {
 public:
  // A larger mesh is looked at in one corner, with about so many ranks.
  static constexpr int64_t kMostRanks = 1024;
  // Halos are looked at up to so many ranks.
  static constexpr int64_t kMostHaloRanks = 4096;

  static TensorCut Of(Layout layout);
  // Errors: as LayoutFromProto.
  static absl::StatusOr<TensorCut> Of(const LayoutPlan& layout);

  const Layout& layout() const { return layout_; }
  const std::vector<int64_t>& shape() const { return layout_.shape(); }
  // In the order of their first ranks in the mesh.
  const std::vector<CutBox>& boxes() const { return boxes_; }
  const std::vector<HaloBox>& halos() const { return halos_; }
  // True where all ranks of the mesh were looked at.
  bool complete() const { return complete_; }
  // Parts of all dims together, empty ones too.
  int64_t Parts() const;
  // How many ranks hold each box.
  int64_t Holders() const { return layout_.mesh().size() / std::max<int64_t>(1, Parts()); }

  // Adds what each rank reads in the movement beyond its box. Nothing where the movement begins in another cut or is no
  // halo exchange. Errors: as MovementEndsOf and Distribution::Reads.
  absl::Status AddHalos(const OperatorPlan& op);

 private:
  explicit TensorCut(Layout layout) : layout_(std::move(layout)) {}

  Layout layout_;
  std::vector<CutBox> boxes_;
  std::vector<HaloBox> halos_;
  bool complete_ = true;
};

// The cells of `box` that are not in `other`, as boxes that do not meet. Both have the same number of dims.
std::vector<Box> BoxDifference(const Box& box, const Box& other);

}  // namespace adjoin

#endif  // ADJOIN_PLANNER_PICTURE_TENSOR_CUT_H_
