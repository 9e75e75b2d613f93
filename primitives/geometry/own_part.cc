#include "primitives/geometry/own_part.h"

#include <algorithm>

#include "primitives/geometry/box.h"
#include "primitives/geometry/need.h"

namespace adjoin {

std::optional<Region> OwnPartIn(const ExchangeSchedule& schedule) {
  if (schedule.accumulates()) return std::nullopt;
  const auto of_this_rank = [&](const Transfer& transfer) { return transfer.peer == schedule.rank(); };
  const auto kept = std::find_if(schedule.recvs().begin(), schedule.recvs().end(), of_this_rank);
  if (kept == schedule.recvs().end() || kept->regions.size() != 1) return std::nullopt;
  if (kept->regions[0].size != schedule.from_shape()) return std::nullopt;
  return kept->regions[0];
}

bool ReadsOwnPart(const Layout& x, const std::map<int, Reading>& readings, const Layout& y, int rank) {
  const Box part = x.BoxOf(rank), outputs = y.BoxOf(rank);
  if (part.Volume() == 0) return false;
  for (const auto& [dim, reading] : readings) {
    const Interval own = part[dim];
    int64_t runs = 0, whole = 0;  // of cells with any of the part's, and with all of them
    for (const Segment& run : reading.Needed(outputs[dim], x.shape()[dim]).segments) {
      runs += run.source.Intersect(own).empty() ? 0 : 1;
      whole += run.source.Intersect(own) == own ? 1 : 0;
    }
    if (runs != 1 || whole != 1) return false;
  }
  return true;
}

}  // namespace adjoin
