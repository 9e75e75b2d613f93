#include "planner/picture/tensor_cut.h"

#include <map>
#include <set>

#include "base/status_macros.h"
#include "layers/rules/layout_proto.h"
#include "primitives/geometry/distribution.h"
#include "primitives/geometry/traffic.h"

namespace adjoin {
namespace {

// Returns the ranks at the mesh's low corner: all of them where there are at most kMostRanks.
std::vector<int> CornerOf(const Mesh& mesh) {
  if (mesh.size() <= TensorCut::kMostRanks) return mesh.ranks();
  std::vector<int64_t> corner = mesh.shape();
  while (VolumeOf(corner) > TensorCut::kMostRanks) {
    int64_t& largest = *std::max_element(corner.begin(), corner.end());
    largest = (largest + 1) / 2;
  }
  std::vector<int> ranks;
  const Box box = Box::Whole(corner);
  for (int64_t i = 0; i < box.Volume(); ++i) ranks.push_back(mesh.RankAt(box.CellAt(i)));
  return ranks;
}

std::vector<std::pair<int64_t, int64_t>> KeyOf(const Box& box) {
  std::vector<std::pair<int64_t, int64_t>> key;
  for (int dim = 0; dim < box.dims(); ++dim) key.emplace_back(box[dim].lo, box[dim].hi);
  return key;
}

// Returns true where both cut the tensor in one way, whatever its type is.
bool SameCut(const Layout& a, const Layout& b) { return a.WithDType(DType::kFloat32) == b.WithDType(DType::kFloat32); }

}  // namespace

TensorCut TensorCut::Of(Layout layout) {
  TensorCut cut(std::move(layout));
  const Mesh& mesh = cut.layout_.mesh();
  const std::vector<int> ranks = CornerOf(mesh);
  cut.complete_ = static_cast<int64_t>(ranks.size()) == mesh.size();
  std::map<std::vector<std::pair<int64_t, int64_t>>, size_t> known;
  for (const int rank : ranks) {
    Box box = cut.layout_.BoxOf(rank);
    if (box.empty()) continue;
    const auto [entry, is_new] = known.emplace(KeyOf(box), cut.boxes_.size());
    if (is_new) cut.boxes_.push_back({std::move(box), {}});
    cut.boxes_[entry->second].ranks.push_back(rank);
  }
  return cut;
}

absl::StatusOr<TensorCut> TensorCut::Of(const LayoutPlan& layout) {
  ADJOIN_ASSIGN_OR_RETURN(Layout made, LayoutFromProto(layout));
  return Of(std::move(made));
}

int64_t TensorCut::Parts() const {
  int64_t parts = 1;
  for (int dim = 0; dim < layout_.dims(); ++dim) parts *= layout_.Parts(dim);
  return parts;
}

absl::Status TensorCut::AddHalos(const OperatorPlan& op) {
  if (op.reading().empty() || layout_.mesh().size() > kMostHaloRanks) return absl::OkStatus();
  for (const ReadingPlan& reading : op.reading()) {
    if (reading.has_selection()) return absl::OkStatus();
  }
  ADJOIN_ASSIGN_OR_RETURN(const MovementEnds ends, MovementEndsOf(op));
  if (!SameCut(ends.from, layout_) || (ends.read.has_value() && !SameCut(*ends.read, layout_))) return absl::OkStatus();
  ADJOIN_ASSIGN_OR_RETURN(const Distribution to, ends.Destination());
  std::set<std::pair<int, std::vector<std::pair<int64_t, int64_t>>>> known;
  for (const HaloBox& halo : halos_) known.emplace(halo.rank, KeyOf(halo.box));
  for (const CutBox& cut : boxes_) {
    for (const int rank : cut.ranks) {
      for (const Piece& piece : to.View(rank).pieces) {
        for (Box& box : BoxDifference(piece.box, cut.box)) {
          if (known.emplace(rank, KeyOf(box)).second) halos_.push_back({rank, std::move(box)});
        }
      }
    }
  }
  return absl::OkStatus();
}

std::vector<Box> BoxDifference(const Box& box, const Box& other) {
  std::vector<Box> pieces;
  if (box.Intersect(other).empty()) {
    if (!box.empty()) pieces.push_back(box);
    return pieces;
  }
  Box rest = box;  // dims before `dim` are within `other`
  for (int dim = 0; dim < box.dims(); ++dim) {
    for (const Interval side : {Interval{rest[dim].lo, std::min(rest[dim].hi, other[dim].lo)},
                                Interval{std::max(rest[dim].lo, other[dim].hi), rest[dim].hi}}) {
      if (side.empty()) continue;
      Box piece = rest;
      piece[dim] = side;
      pieces.push_back(std::move(piece));
    }
    rest[dim] = rest[dim].Intersect(other[dim]);
  }
  return pieces;
}

}  // namespace adjoin
