#include "primitives/geometry/edge_window.h"

#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace adjoin {

absl::StatusOr<EdgeWindow> EdgeWindow::Create(const Options& options) {
  if (options.reach < 1 || options.reach > int64_t{1} << 31) {
    return absl::InvalidArgumentError(absl::StrCat("edges of ", options.reach, " cells; from 1 to 2^31 are possible"));
  }
  return EdgeWindow(options);
}

Interval EdgeWindow::Reads(Interval part, int64_t n) const {
  if (part.empty()) return {0, 0};
  return options_.inner ? part : Interval{part.lo - options_.reach, part.hi + options_.reach};
}

Need EdgeWindow::Needed(Interval part, int64_t n) const {
  if (part.empty()) return {};
  const int64_t reach = options_.reach;
  const Interval first = options_.inner ? Interval{part.lo, part.lo + reach} : Interval{part.lo - reach, part.lo};
  const Interval last = options_.inner ? Interval{part.hi - reach, part.hi} : Interval{part.hi, part.hi + reach};
  Need need{2 * reach, 2 * reach, {}};
  int64_t at = 0;
  for (const Interval& edge : {first, last}) {
    const Interval inside = edge.Intersect({0, n});
    if (!inside.empty()) need.segments.push_back({inside, at + inside.lo - edge.lo});
    at += reach;
  }
  return need;
}

std::string EdgeWindow::ToString() const {
  return absl::StrCat(options_.inner ? "inner" : "outer", " edges of ", options_.reach);
}

}  // namespace adjoin
