#include "primitives/geometry/dim_parts.h"

#include <algorithm>
#include <tuple>

#include "primitives/geometry/need.h"

namespace adjoin {

DimParts PartsOf(const Layout& layout, int dim) {
  const std::vector<int64_t>& boundaries = layout.Boundaries(dim);
  DimParts parts;
  const int count = static_cast<int>(boundaries.size()) - 1;
  parts.extents.reserve(count);
  parts.runs.reserve(count);
  parts.first_run.reserve(count + 1);
  for (int part = 0; part < count; ++part) {
    const int64_t lo = boundaries[part], hi = boundaries[part + 1];
    parts.extents.push_back(hi - lo);
    parts.first_run.push_back(static_cast<int>(parts.runs.size()));
    if (hi > lo) parts.runs.push_back({lo, hi, 0, part});
  }
  parts.first_run.push_back(static_cast<int>(parts.runs.size()));
  return parts;
}

DimParts PartsOf(const Layout& x, const Reading& reading, const Layout& y, int dim) {
  const std::vector<int64_t>& boundaries = y.Boundaries(dim);
  DimParts parts;
  parts.plain = false;
  for (size_t part = 0; part + 1 < boundaries.size(); ++part) {
    const Need need = reading.Needed({boundaries[part], boundaries[part + 1]}, x.shape()[dim]);
    parts.extents.push_back(need.fetched);
    parts.first_run.push_back(static_cast<int>(parts.runs.size()));
    for (const Segment& segment : need.segments) {
      if (segment.source.empty()) continue;
      parts.runs.push_back({segment.source.lo, segment.source.hi, segment.at, static_cast<int>(part)});
    }
  }
  parts.first_run.push_back(static_cast<int>(parts.runs.size()));
  return parts;
}

std::vector<PartOverlap> OverlapsOf(const DimParts& from, const DimParts& to) {
  std::vector<PartOverlap> overlaps;
  if (from.plain && to.plain) {
    overlaps.reserve(from.runs.size() + to.runs.size());
    for (size_t i = 0, j = 0; i < from.runs.size() && j < to.runs.size();) {
      const PartRun &a = from.runs[i], &b = to.runs[j];
      const int64_t shared = std::min(a.hi, b.hi) - std::max(a.lo, b.lo);
      if (shared > 0) overlaps.push_back({a.part, b.part, shared, 1});
      if (a.hi <= b.hi) ++i;
      if (b.hi <= a.hi) ++j;
    }
    return overlaps;
  }
  // The source's runs by their begins, and how far those up to each one reach.
  std::vector<PartRun> runs = from.runs;
  std::sort(runs.begin(), runs.end(), [](const PartRun& a, const PartRun& b) { return a.lo < b.lo; });
  std::vector<int64_t> reach;
  for (const PartRun& run : runs) reach.push_back(std::max(run.hi, reach.empty() ? run.hi : reach.back()));
  for (const PartRun& b : to.runs) {
    auto end = std::lower_bound(runs.begin(), runs.end(), b.hi, [](const PartRun& a, int64_t hi) { return a.lo < hi; });
    for (int64_t i = end - runs.begin() - 1; i >= 0 && reach[i] > b.lo; --i) {
      const int64_t shared = std::min(runs[i].hi, b.hi) - std::max(runs[i].lo, b.lo);
      if (shared > 0) overlaps.push_back({runs[i].part, b.part, shared, 1});
    }
  }
  std::sort(overlaps.begin(), overlaps.end(),
            [](const PartOverlap& a, const PartOverlap& b) { return std::tie(a.q, a.p) < std::tie(b.q, b.p); });
  size_t kept = 0;
  for (size_t i = 0; i < overlaps.size(); ++i) {
    if (kept > 0 && overlaps[kept - 1].p == overlaps[i].p && overlaps[kept - 1].q == overlaps[i].q) {
      overlaps[kept - 1].elements += overlaps[i].elements;
      overlaps[kept - 1].runs += overlaps[i].runs;
    } else {
      overlaps[kept++] = overlaps[i];
    }
  }
  overlaps.resize(kept);
  return overlaps;
}

}  // namespace adjoin
