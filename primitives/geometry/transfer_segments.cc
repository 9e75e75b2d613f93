#include "primitives/geometry/transfer_segments.h"

#include <algorithm>
#include <utility>

#include "primitives/geometry/box.h"

namespace adjoin {
namespace {

// Calls take(region) for boxes of at most `most` elements that are together `region`, in row-major order of its cells:
// whole slices along the outermost dim where one fits, else each slice cut further.
template <typename Take>
void Cut(const Region& region, int64_t most, const Take& take) {
  const int64_t elements = region.Volume();
  if (elements <= most) {
    if (elements > 0) take(region);
    return;
  }
  std::size_t dim = 0;
  while (region.size[dim] == 1) ++dim;
  const int64_t inner = elements / region.size[dim];
  const int64_t slices = std::max<int64_t>(1, most / inner);
  for (int64_t begin = 0; begin < region.size[dim]; begin += slices) {
    Region part = region;
    part.at[dim] += begin;
    part.size[dim] = std::min(slices, region.size[dim] - begin);
    Cut(part, most, take);
  }
}

}  // namespace

std::vector<Transfer> SegmentsOf(const Transfer& transfer, int64_t most) {
  if (transfer.elements <= most) return {transfer};
  std::vector<Transfer> segments;
  for (const Region& region : transfer.regions) {
    Cut(region, most, [&](const Region& part) {
      const int64_t elements = part.Volume();
      if (segments.empty() || segments.back().elements + elements > most) segments.push_back({transfer.peer, {}, 0});
      segments.back().regions.push_back(part);
      segments.back().elements += elements;
    });
  }
  return segments;
}

}  // namespace adjoin
