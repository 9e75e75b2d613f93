#include "primitives/geometry/edge_window.h"

#include <algorithm>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace adjoin {

absl::StatusOr<EdgeWindow> EdgeWindow::Create(const Options& options) {
  constexpr int64_t kMost = int64_t{1} << 31;
  const auto [least, most] = std::minmax({options.before, options.after});
  if (least < 0 || most < 1 || most > kMost) {
    return absl::InvalidArgumentError(absl::StrCat("edges of ", options.before, " cells before and ", options.after,
                                                   " after; from 0 to 2^31 are possible, and on one side at least 1"));
  }
  return EdgeWindow(options);
}

Interval EdgeWindow::Reads(Interval part, int64_t n) const {
  if (part.empty()) return {0, 0};
  return options_.inner ? part : Interval{part.lo - options_.before, part.hi + options_.after};
}

Need EdgeWindow::Needed(Interval part, int64_t n) const {
  if (part.empty()) return {};
  const int64_t before = options_.before, after = options_.after;
  const Interval first = options_.inner ? Interval{part.lo, part.lo + after} : Interval{part.lo - before, part.lo};
  const Interval last = options_.inner ? Interval{part.hi - before, part.hi} : Interval{part.hi, part.hi + after};
  Need need{before + after, before + after, {}};
  int64_t at = 0;
  for (const Interval& edge : {first, last}) {
    const Interval inside = edge.Intersect({0, n});
    if (!inside.empty()) need.segments.push_back({inside, at + inside.lo - edge.lo});
    at += edge.size();
  }
  return need;
}

std::string EdgeWindow::ToString() const {
  const std::string cells = options_.before == options_.after
                                ? absl::StrCat(options_.before)
                                : absl::StrCat(options_.before, " before, ", options_.after, " after");
  return absl::StrCat(options_.inner ? "inner" : "outer", " edges of ", cells);
}

}  // namespace adjoin
