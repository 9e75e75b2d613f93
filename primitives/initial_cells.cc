#include "primitives/initial_cells.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <tuple>

#include "primitives/geometry/box.h"
#include "primitives/geometry/dtype.h"
#include "primitives/geometry/layout.h"
#include "primitives/torch_dtype.h"

namespace adjoin {
namespace {

// Whether this rank gets the group's result.
bool GetsResult(const CollectiveGroup& group, int rank) {
  const bool root = group.ranks[0] == rank;
  switch (group.kind) {
    case CollectiveGroup::Kind::kBroadcast: return !root || group.root_takes_part;
    case CollectiveGroup::Kind::kSumReduce: return root;
    case CollectiveGroup::Kind::kAllSumReduce: return true;
  }
  return false;
}

// Whether contributions reach every cell, and the first one needs nothing there.
bool OverwritesEverything(const MovementPlan& plan) {
  const ExchangeSchedule& direct = plan.direct();
  if (direct.accumulates()) return false;
  int64_t written = 0;
  for (const Transfer& transfer : direct.recvs()) written += transfer.elements;
  for (const CollectiveGroup& group : plan.groups()) {
    if (GetsResult(group, plan.rank())) written += group.elements;
  }
  return written == VolumeOf(direct.to_shape());
}

// Where contributions arrive, each region once.
std::vector<Region> Reached(const MovementPlan& plan) {
  const std::vector<int64_t>& shape = plan.direct().to_shape();
  for (const CollectiveGroup& group : plan.groups()) {
    if (GetsResult(group, plan.rank())) return {{std::vector<int64_t>(shape.size(), 0), shape}};
  }
  std::vector<Region> regions;
  for (const Transfer& transfer : plan.direct().recvs()) {
    regions.insert(regions.end(), transfer.regions.begin(), transfer.regions.end());
  }
  std::sort(regions.begin(), regions.end(),
            [](const Region& a, const Region& b) { return std::tie(a.at, a.size) < std::tie(b.at, b.size); });
  regions.erase(std::unique(regions.begin(), regions.end()), regions.end());
  return regions;
}

// The box that the regions tile without meeting, if they do.
std::optional<Region> TiledBox(const std::vector<Region>& regions) {
  if (regions.empty()) return std::nullopt;
  Region box = regions[0];
  int64_t volume = 0;
  for (const Region& region : regions) {
    volume += region.Volume();
    for (size_t dim = 0; dim < box.at.size(); ++dim) {
      const int64_t lo = std::min(box.at[dim], region.at[dim]);
      box.size[dim] = std::max(box.at[dim] + box.size[dim], region.at[dim] + region.size[dim]) - lo;
      box.at[dim] = lo;
    }
  }
  if (volume != box.Volume()) return std::nullopt;
  return box;
}

// What lies around `box` in a tensor of `shape`: at most two regions per dim.
std::vector<Region> Around(const Region& box, const std::vector<int64_t>& shape) {
  std::vector<Region> regions;
  Region rest{std::vector<int64_t>(shape.size(), 0), shape};
  for (size_t dim = 0; dim < shape.size(); ++dim) {
    const int64_t end = box.at[dim] + box.size[dim];
    for (const Interval part : {Interval{0, box.at[dim]}, Interval{end, shape[dim]}}) {
      Region region = rest;
      region.at[dim] = part.lo;
      region.size[dim] = part.size();
      if (region.Volume() > 0) regions.push_back(region);
    }
    rest.at[dim] = box.at[dim];
    rest.size[dim] = box.size[dim];
  }
  return regions;
}

int64_t VolumeOf(const std::vector<Piece>& pieces) {
  int64_t volume = 0;
  for (const Piece& piece : pieces) volume += piece.box.Volume();
  return volume;
}

template <typename T>
c10::Scalar Furthest(bool lowest) {
  return lowest ? std::numeric_limits<T>::lowest() : std::numeric_limits<T>::max();
}

c10::Scalar Neutral(ReduceOp reduce, DType dtype) {
  if (reduce == ReduceOp::kSum) return 0;
  const bool lowest = reduce == ReduceOp::kMax;
  switch (dtype) {
    case DType::kInt64: return Furthest<int64_t>(lowest);
    case DType::kInt32: return Furthest<int32_t>(lowest);
    case DType::kUInt8: return Furthest<uint8_t>(lowest);
    case DType::kBool: return !lowest;
    default: break;
  }
  const double infinity = std::numeric_limits<double>::infinity();
  return lowest ? -infinity : infinity;
}

void Fill(const torch::Tensor& result, const Region& region, const c10::Scalar& value) {
  torch::Tensor cells = result;
  for (size_t dim = 0; dim < region.at.size(); ++dim) {
    cells = cells.narrow(static_cast<int64_t>(dim), region.at[dim], region.size[dim]);
  }
  cells.fill_(value);
}

}  // namespace

InitialCells::InitialCells(const MovementPlan& plan, double background, const std::vector<Piece>& covered)
    : shape_(plan.direct().to_shape()),
      type_(ScalarTypeOf(plan.dtype())),
      overwritten_(OverwritesEverything(plan)),
      background_(background),
      neutral_(Neutral(plan.reduce(), plan.dtype())) {
  if (overwritten_) return;
  if (!plan.direct().accumulates()) {
    const std::optional<Region> box = TiledBox(Reached(plan));
    // With a background, cells that an index covers must all be reached, or they would not be 0.
    if (box.has_value() && (background == 0 || VolumeOf(covered) == box->Volume())) {
      around_ = Around(*box, shape_);
      return;
    }
  }
  if (background != 0) {
    for (const Piece& piece : covered) zeros_.push_back({piece.at, piece.box.Shape()});
  }
  // Zeros to add to are there already, unless the background is something else.
  if (background != 0 || plan.reduce() != ReduceOp::kSum) combined_ = Reached(plan);
}

torch::Tensor InitialCells::New() const {
  if (overwritten_) return torch::empty(shape_, type_);
  if (!around_.empty()) {
    torch::Tensor result = torch::empty(shape_, type_);
    for (const Region& region : around_) Fill(result, region, background_);
    return result;
  }
  if (combined_.size() == 1 && combined_[0].size == shape_) return torch::full(shape_, neutral_, type_);
  torch::Tensor result = torch::full(shape_, background_, type_);
  for (const Region& region : zeros_) Fill(result, region, 0);
  for (const Region& region : combined_) Fill(result, region, neutral_);
  return result;
}

}  // namespace adjoin
