#include "primitives/initial_cells.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <optional>
#include <tuple>

#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>

#include "primitives/geometry/box.h"
#include "primitives/geometry/dtype.h"
#include "primitives/geometry/layout.h"
#include "primitives/torch_dtype.h"

namespace adjoin {
namespace {

// True where this rank gets the group's result.
bool GetsResult(const CollectiveGroup& group, int rank) {
  const bool root = group.ranks[0] == rank;
  switch (group.kind) {
    case CollectiveGroup::Kind::kBroadcast: return !root || group.root_takes_part;
    case CollectiveGroup::Kind::kSumReduce: return root;
    case CollectiveGroup::Kind::kAllSumReduce: return true;
  }
  return false;
}

// True where contributions reach every cell, and the first one needs nothing there.
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

// The regions around `box` in a tensor of `shape`: at most two regions per dim.
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

// The bytes of one element.
std::string ElementOf(const c10::Scalar& value, c10::ScalarType type) {
  const at::Tensor element = at::full({1}, value, type);
  return std::string(static_cast<const char*>(element.data_ptr()), element.nbytes());
}

template <typename T>
void FillRow(char* row, int64_t elements, const std::string& element) {
  T value;
  std::memcpy(&value, element.data(), sizeof(T));
  std::fill_n(reinterpret_cast<T*>(row), elements, value);
}

void FillRow(char* row, int64_t elements, const std::string& element) {
  switch (element.size()) {
    case 1: return FillRow<uint8_t>(row, elements, element);
    case 2: return FillRow<uint16_t>(row, elements, element);
    case 4: return FillRow<uint32_t>(row, elements, element);
    case 8: return FillRow<uint64_t>(row, elements, element);
    default: return FillRow<std::array<uint64_t, 2>>(row, elements, element);
  }
}

// By hand: a boundary is many short rows, for which a view and a LibTorch operator each cost more than the writing.
void FillOnHost(at::Tensor& result, const Region& region, const std::string& element) {
  const int64_t bytes = static_cast<int64_t>(element.size());
  // Dims that are whole from here on make one row with the one before.
  int row_dim = static_cast<int>(region.at.size()) - 1;
  while (row_dim > 0 && region.size[row_dim] == result.size(row_dim)) --row_dim;
  int64_t row = 1;
  char* begin = static_cast<char*>(result.data_ptr());
  for (int dim = 0; dim < static_cast<int>(region.at.size()); ++dim) {
    if (dim >= row_dim) row *= region.size[dim];
    begin += region.at[dim] * result.stride(dim) * bytes;
  }
  std::vector<int64_t> at(std::max(row_dim, 0), 0);
  while (true) {
    FillRow(begin, row, element);
    int dim = row_dim - 1;
    for (; dim >= 0; --dim) {
      begin += result.stride(dim) * bytes;
      if (++at[dim] < region.size[dim]) break;
      begin -= region.size[dim] * result.stride(dim) * bytes;
      at[dim] = 0;
    }
    if (dim < 0) return;
  }
}

}  // namespace

void InitialCells::Fill(at::Tensor& result, const Region& region, const Value& value) {
  if (result.device().is_cpu()) return FillOnHost(result, region, value.element);
  at::Tensor cells = result;
  for (int64_t dim = 0; dim < result.dim(); ++dim) cells = cells.narrow(dim, region.at[dim], region.size[dim]);
  cells.fill_(value.scalar);
}

InitialCells::InitialCells(const MovementPlan& plan, double background, const std::vector<Piece>& covered)
    : shape_(plan.direct().to_shape()),
      type_(ScalarTypeOf(plan.dtype())),
      overwritten_(OverwritesEverything(plan)),
      background_{background, ""} {
  if (overwritten_) return;
  background_.element = ElementOf(background, type_);
  if (!plan.direct().accumulates()) {
    const std::optional<Region> box = TiledBox(Reached(plan));
    // With a background, cells that an index covers must all be reached, or they would not be 0.
    if (box.has_value() && (background == 0 || VolumeOf(covered) == box->Volume())) {
      around_ = Around(*box, shape_);
      return;
    }
  }
  zero_ = {0, ElementOf(0, type_)};
  const c10::Scalar neutral = Neutral(plan.reduce(), plan.dtype());
  neutral_ = {neutral, ElementOf(neutral, type_)};
  if (background != 0) {
    for (const Piece& piece : covered) zeros_.push_back({piece.at, piece.box.Shape()});
  }
  // Zeros to add to are there already, unless the background is something else.
  if (background != 0 || plan.reduce() != ReduceOp::kSum) combined_ = Reached(plan);
}

at::Tensor InitialCells::New(c10::Device device) const {
  const at::TensorOptions options = at::TensorOptions(device).dtype(type_);
  if (overwritten_) return at::empty(shape_, options);
  if (!around_.empty()) {
    at::Tensor result = at::empty(shape_, options);
    for (const Region& region : around_) Fill(result, region, background_);
    return result;
  }
  if (combined_.size() == 1 && combined_[0].size == shape_) return at::full(shape_, neutral_.scalar, options);
  at::Tensor result = at::full(shape_, background_.scalar, options);
  for (const Region& region : zeros_) Fill(result, region, zero_);
  for (const Region& region : combined_) Fill(result, region, neutral_);
  return result;
}

}  // namespace adjoin
