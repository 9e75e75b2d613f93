#include "primitives/geometry/kept_halo.h"

#include <algorithm>
#include <string>
#include <tuple>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "primitives/geometry/box.h"
#include "primitives/geometry/need.h"

namespace adjoin {
namespace {

constexpr int64_t kWidest = int64_t{1} << 30;  // the sum of two is a window's largest kernel

// One dim of a padded part.
struct PaddedDim {
  int64_t extent = 0;
  std::vector<Segment> own;   // the part; none where it is empty
  std::vector<Segment> ring;  // what else has an index
  Interval covered;           // the positions with an index, which are next to each other
};

// The window whose outputs are the inputs' positions and which reads the ring around them.
absl::StatusOr<Window> RingWindow(const HaloWidth& width) {
  return Window::Create(
      {.kernel = width.lo + width.hi + 1, .pad_lo = width.lo, .pad_hi = width.hi, .boundary = width.boundary});
}

// What the window reads, position by position where indices are repeated.
std::vector<Segment> SegmentsRead(const Window& window, Interval part, int64_t n) {
  Need need = window.Needed(part, n);
  const std::vector<int64_t> map = window.IndexMap(part, n);
  if (map.empty()) return std::move(need.segments);
  std::vector<Segment> segments;
  for (int64_t at = 0; at < static_cast<int64_t>(map.size()); ++at) {
    for (const Segment& fetched : need.segments) {
      const int64_t index = fetched.source.lo + map[at] - fetched.at;
      if (!fetched.source.Contains(index)) continue;
      if (!segments.empty() && segments.back().source.hi == index &&
          segments.back().at + segments.back().source.size() == at) {
        ++segments.back().source.hi;
      } else {
        segments.push_back({{index, index + 1}, at});
      }
      break;
    }
  }
  return segments;
}

PaddedDim PadDim(Interval part, const HaloWidth& width, int64_t n) {
  PaddedDim dim;
  if (part.empty()) return dim;
  dim.extent = width.lo + part.size() + width.hi;
  dim.own.push_back({part, width.lo});
  const Interval own{width.lo, width.lo + part.size()};
  dim.covered = own;
  for (const Segment& read : SegmentsRead(*RingWindow(width), part, n)) {
    const Interval at{read.at, read.at + read.source.size()};
    dim.covered = dim.covered.Hull(at);
    for (const Interval kept : {at.Intersect({0, own.lo}), at.Intersect({own.hi, dim.extent})}) {
      if (kept.empty()) continue;
      const int64_t first = read.source.lo + kept.lo - read.at;
      dim.ring.push_back({{first, first + kept.size()}, kept.lo});
    }
  }
  return dim;
}

PaddedDim PadDim(const Layout& x, const std::map<int, HaloWidth>& widths, int dim, Interval part) {
  const auto width = widths.find(dim);
  return PadDim(part, width == widths.end() ? HaloWidth{} : width->second, x.shape()[dim]);
}

absl::Status CheckWidths(const Layout& x, const std::map<int, HaloWidth>& widths) {
  for (const auto& [dim, width] : widths) {
    if (dim < 0 || dim >= x.dims()) {
      return absl::InvalidArgumentError(absl::StrCat("a halo in dim ", dim, " of a tensor of ", x.dims(), " dims"));
    }
    if (std::min(width.lo, width.hi) < 0 || std::max(width.lo, width.hi) > kWidest) {
      return absl::InvalidArgumentError(absl::StrCat("a halo of ", width.lo, " and ", width.hi, " cells in dim ", dim,
                                                     "; each is from 0 to ", kWidest));
    }
    ADJOIN_ASSIGN_OR_RETURN(const Window window, RingWindow(width));
    if (absl::Status fits = window.OutputSize(x.shape()[dim]).status(); !fits.ok()) {
      return absl::Status(fits.code(), absl::StrCat("a halo of ", width.lo, " and ", width.hi, " cells in dim ", dim,
                                                    " with extent ", x.shape()[dim], ": ", fits.message()));
    }
  }
  return absl::OkStatus();
}

// The pieces of every rank's padded tensor: its part, and the others.
struct Views {
  std::vector<LocalView> interior, ring, padded;
};

Views ViewsOf(const Layout& x, const std::map<int, HaloWidth>& widths) {
  Views views;
  // By dim, first and last cell: ranks that share them have the same.
  std::map<std::tuple<int, int64_t, int64_t>, PaddedDim> known;
  for (const int rank : x.mesh().ranks()) {
    const Box part = x.BoxOf(rank);
    std::vector<DimView> own, all;
    for (int d = 0; d < x.dims(); ++d) {
      const auto [dim, fresh] = known.try_emplace({d, part[d].lo, part[d].hi});
      if (fresh) dim->second = PadDim(x, widths, d, part[d]);
      own.push_back({dim->second.extent, dim->second.own});
      all.push_back(own.back());
      all.back().segments.insert(all.back().segments.end(), dim->second.ring.begin(), dim->second.ring.end());
    }
    views.interior.push_back(ProductView(own));
    views.padded.push_back(ProductView(all));
    // The part itself is the product's first piece, where there is any.
    views.ring.push_back(views.padded.back());
    std::vector<Piece>& pieces = views.ring.back().pieces;
    if (!pieces.empty()) pieces.erase(pieces.begin());
  }
  return views;
}

}  // namespace

KeptHalo::KeptHalo(Layout x, std::map<int, HaloWidth> widths, Distribution interior, Distribution ring,
                   Distribution padded)
    : x_(std::move(x)),
      widths_(std::move(widths)),
      interior_(std::move(interior)),
      ring_(std::move(ring)),
      padded_(std::move(padded)) {}

absl::StatusOr<KeptHalo> KeptHalo::Create(const Layout& x, const std::map<int, HaloWidth>& widths) {
  ADJOIN_RETURN_IF_ERROR(CheckWidths(x, widths));
  const auto distribution = [&x](std::vector<LocalView> views) {
    return Distribution::FromViews(x.shape(), x.dtype(), x.mesh(), x.placements(), std::move(views));
  };
  Views views = ViewsOf(x, widths);
  ADJOIN_ASSIGN_OR_RETURN(Distribution interior, distribution(std::move(views.interior)));
  ADJOIN_ASSIGN_OR_RETURN(Distribution ring, distribution(std::move(views.ring)));
  ADJOIN_ASSIGN_OR_RETURN(Distribution padded, distribution(std::move(views.padded)));
  return KeptHalo(x, widths, std::move(interior), std::move(ring), std::move(padded));
}

Region KeptHalo::InteriorOf(int rank) const {
  const Box part = x_.BoxOf(rank);
  Region interior{std::vector<int64_t>(part.dims()), part.Shape()};
  for (const auto& [dim, width] : widths_) {
    if (!part[dim].empty()) interior.at[dim] = width.lo;
  }
  return interior;
}

std::vector<Region> KeptHalo::OutsideOf(int rank) const {
  const Box part = x_.BoxOf(rank);
  std::vector<PaddedDim> dims;
  for (int d = 0; d < x_.dims(); ++d) dims.push_back(PadDim(x_, widths_, d, part[d]));
  std::vector<Region> outside;
  for (std::size_t d = 0; d < dims.size(); ++d) {
    for (const Interval gap : {Interval{0, dims[d].covered.lo}, Interval{dims[d].covered.hi, dims[d].extent}}) {
      // Whatever is outside in an earlier dim is in that dim's boxes.
      Region box;
      for (std::size_t e = 0; e < dims.size(); ++e) {
        const Interval cells = e < d ? dims[e].covered : e == d ? gap : Interval{0, dims[e].extent};
        box.at.push_back(cells.lo);
        box.size.push_back(cells.size());
      }
      if (box.Volume() > 0) outside.push_back(std::move(box));
    }
  }
  return outside;
}

}  // namespace adjoin
