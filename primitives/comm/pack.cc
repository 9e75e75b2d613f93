#include "primitives/comm/pack.h"

#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace adjoin {
namespace {

// A box of cells that is in two tensors at once, a and b: after merging what is contiguous in both, rows of
// contiguous elements, and loops around them.
class Walk {
 public:
  Walk(const std::vector<int64_t>& size, const std::vector<int64_t>& a_shape, const std::vector<int64_t>& a_at,
       const std::vector<int64_t>& b_shape, const std::vector<int64_t>& b_at) {
    int64_t a_stride = 1;
    int64_t b_stride = 1;
    for (int dim = static_cast<int>(size.size()) - 1; dim >= 0; --dim) {
      a_offset_ += a_at[dim] * a_stride;
      b_offset_ += b_at[dim] * b_stride;
      AddLoop({size[dim], a_stride, b_stride});
      a_stride *= a_shape[dim];
      b_stride *= b_shape[dim];
    }
    if (!loops_.empty() && loops_.front().from_stride == 1 && loops_.front().onto_stride == 1) {
      row_elements_ = loops_.front().count;
      loops_.erase(loops_.begin());
    }
  }

  // The cells from a_offset() of a to b_offset() of b.
  Cells cells() const { return {row_elements_, loops_}; }
  int64_t a_offset() const { return a_offset_; }
  int64_t b_offset() const { return b_offset_; }
  int64_t row_elements() const { return row_elements_; }
  bool one_row() const { return loops_.empty(); }

 private:
  void AddLoop(CellLoop loop) {
    if (loop.count == 1) return;
    if (!loops_.empty() && loop.from_stride == loops_.back().count * loops_.back().from_stride &&
        loop.onto_stride == loops_.back().count * loops_.back().onto_stride) {
      loops_.back().count *= loop.count;
      return;
    }
    loops_.push_back(loop);
  }

  absl::InlinedVector<CellLoop, 8> loops_;  // innermost first
  int64_t row_elements_ = 1;
  int64_t a_offset_ = 0;
  int64_t b_offset_ = 0;
};

Walk InMessage(const std::vector<int64_t>& shape, const Region& region) {
  return Walk(region.size, shape, region.at, region.size, std::vector<int64_t>(region.size.size(), 0));
}

// Walks from a to b, copying, or combining where `op` is one.
absl::Status CopyOrCombine(LocalMemory& memory, DType dtype, std::optional<ReduceOp> op, const Walk& walk,
                           const void* from, void* to) {
  const int64_t element_bytes = SizeOf(dtype);
  return memory.Move(op, dtype, static_cast<const char*>(from) + walk.a_offset() * element_bytes,
                     static_cast<char*>(to) + walk.b_offset() * element_bytes, walk.cells());
}

}  // namespace

std::optional<int64_t> RunOf(const std::vector<int64_t>& shape, const std::vector<Region>& regions) {
  std::optional<int64_t> begin;
  int64_t end = 0;
  for (const Region& region : regions) {
    if (region.Volume() == 0) continue;
    const Walk walk = InMessage(shape, region);
    if (!walk.one_row() || (begin.has_value() && walk.a_offset() != end)) return std::nullopt;
    if (!begin.has_value()) begin = walk.a_offset();
    end = walk.a_offset() + walk.row_elements();
  }
  return begin;
}

absl::Status Pack(LocalMemory& memory, DType dtype, const std::vector<int64_t>& shape,
                  const std::vector<Region>& regions, const void* tensor, void* message) {
  char* out = static_cast<char*>(message);
  for (const Region& region : regions) {
    const int64_t elements = region.Volume();
    if (elements == 0) continue;
    ADJOIN_RETURN_IF_ERROR(CopyOrCombine(memory, dtype, std::nullopt, InMessage(shape, region), tensor, out));
    out += elements * SizeOf(dtype);
  }
  return absl::OkStatus();
}

absl::Status Unpack(LocalMemory& memory, DType dtype, std::optional<ReduceOp> op, const std::vector<int64_t>& shape,
                    const std::vector<Region>& regions, const void* message, void* tensor) {
  const char* in = static_cast<const char*>(message);
  for (const Region& region : regions) {
    const int64_t elements = region.Volume();
    if (elements == 0) continue;
    const std::vector<int64_t> origin(region.size.size(), 0);
    ADJOIN_RETURN_IF_ERROR(
        CopyOrCombine(memory, dtype, op, Walk(region.size, region.size, origin, shape, region.at), in, tensor));
    in += elements * SizeOf(dtype);
  }
  return absl::OkStatus();
}

absl::Status CopyRegions(LocalMemory& memory, DType dtype, std::optional<ReduceOp> op,
                         const std::vector<int64_t>& from_shape, const std::vector<Region>& from_regions,
                         const void* from, const std::vector<int64_t>& to_shape, const std::vector<Region>& to_regions,
                         void* to) {
  if (from_regions.size() != to_regions.size()) {
    return absl::InternalError(absl::StrCat("what a rank keeps is ", from_regions.size(), " regions of the source but ",
                                            to_regions.size(), " of the destination"));
  }
  for (std::size_t i = 0; i < from_regions.size(); ++i) {
    const Region& a = from_regions[i];
    const Region& b = to_regions[i];
    if (a.size != b.size) {
      return absl::InternalError(absl::StrCat("region ", i,
                                              " of what a rank keeps differs in size between source and "
                                              "destination: ",
                                              a.Volume(), " and ", b.Volume(), " elements"));
    }
    if (a.Volume() == 0) continue;
    ADJOIN_RETURN_IF_ERROR(CopyOrCombine(memory, dtype, op, Walk(a.size, from_shape, a.at, to_shape, b.at), from, to));
  }
  return absl::OkStatus();
}

}  // namespace adjoin
