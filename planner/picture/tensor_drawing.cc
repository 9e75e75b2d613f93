#include "planner/picture/tensor_drawing.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/number_ranges.h"

namespace adjoin {
namespace {

constexpr double kLeastSide = 18;   // of a dim that is drawn
constexpr double kLeastPart = 4.5;  // of a part
constexpr double kLeastHalo = 3;    // of a halo
constexpr double kFlat = 18;        // of what has one dim, or none
constexpr int kMostStripes = 4;
constexpr double kBarHeight = 6, kBarGap = 3, kSliceGap = 12, kBarLetter = 14;
constexpr double kCos30 = 0.8660254;

struct Range {
  double lo = 0, hi = 0;
};

// How one tensor is drawn: pixels of its dims, and how far from 0 boxes are.
class Frame {
 public:
  Frame(const TensorCut& cut, const TensorView& view, double side)
      : cut_(cut), drawn_(view.Drawn()), bars_(view.Bars()) {
    const std::vector<int64_t>& shape = cut.shape();
    int64_t longest = 1;
    for (const int dim : drawn_) longest = std::max(longest, shape[dim]);
    pixels_.resize(shape.size(), kFlat);
    limit_ = shape;
    for (const int dim : drawn_) {
      pixels_[dim] = std::max(kLeastSide, side * static_cast<double>(shape[dim]) / static_cast<double>(longest));
    }
    SetLimits();
  }

  const TensorCut& cut() const { return cut_; }
  const std::vector<int>& drawn() const { return drawn_; }
  const std::vector<int>& bars() const { return bars_; }
  double Pixels(int dim) const { return dim < 0 ? kFlat : pixels_[dim]; }
  // Where the cells of a dim are; all of it for no dim.
  Range Of(int dim, Interval cells) const {
    if (dim < 0) return {0, kFlat};
    const double extent = static_cast<double>(std::max<int64_t>(1, cut_.shape()[dim]));
    return {pixels_[dim] * static_cast<double>(cells.lo) / extent,
            pixels_[dim] * static_cast<double>(cells.hi) / extent};
  }
  // True where the box is among those that are drawn.
  bool Has(const Box& box) const {
    return std::all_of(drawn_.begin(), drawn_.end(), [&](int dim) { return box[dim].hi <= limit_[dim]; });
  }
  bool limited() const { return limited_; }

 private:
  void SetLimits() {
    std::map<int, int64_t> parts;
    for (const int dim : drawn_) {
      const int64_t most = std::max<int64_t>(1, static_cast<int64_t>(pixels_[dim] / kLeastPart));
      parts[dim] = std::min(cut_.layout().Parts(dim), most);
    }
    int64_t slices = 1;
    for (const int dim : bars_) slices = std::min<int64_t>(kMostSlices, slices * cut_.layout().Parts(dim));
    const auto boxes = [&] {
      int64_t product = slices;
      for (const auto& entry : parts) product *= entry.second;
      return product;
    };
    while (boxes() > kMostBoxes) {
      const auto most = std::max_element(parts.begin(), parts.end(),
                                         [](const auto& a, const auto& b) { return a.second < b.second; });
      if (most->second <= 1) break;
      most->second = (most->second + 1) / 2;
    }
    for (const auto& [dim, count] : parts) {
      limit_[dim] = cut_.layout().Boundaries(dim)[static_cast<size_t>(count)];
      limited_ = limited_ || limit_[dim] < cut_.shape()[dim];
    }
  }

  const TensorCut& cut_;
  const std::vector<int> drawn_, bars_;
  std::vector<double> pixels_;
  std::vector<int64_t> limit_;
  bool limited_ = false;
};

// A side of what is drawn, spanned by two dims (-1: none).
struct Face {
  int u = -1, v = -1;
  bool upright = true;                      // a rectangle on the page
  std::function<Point(double, double)> at;  // of pixels along u and v
  std::function<bool(const Box&)> touches;  // whether a box reaches it
  std::string shade;                        // over the colours; empty: none
};

// A rectangle on a face, in pixels along its dims.
struct Patch {
  Range u, v;
};

void AddPatch(const Face& face, const Patch& patch, const std::string& style, const std::string& title,
              Drawing& drawing) {
  if (face.upright) {
    drawing.AddRect(face.at(patch.u.lo, patch.v.lo), patch.u.hi - patch.u.lo, patch.v.hi - patch.v.lo, style, title);
    return;
  }
  drawing.AddPolygon({face.at(patch.u.lo, patch.v.lo), face.at(patch.u.hi, patch.v.lo), face.at(patch.u.hi, patch.v.hi),
                      face.at(patch.u.lo, patch.v.hi)},
                     style, title);
}

bool IsPartial(const TensorCut& cut) { return cut.layout().HasKind(Placement::Kind::kPartial); }

// "B", "P" or "BP": why a box has several ranks.
std::string MarkOf(const TensorCut& cut) {
  return absl::StrCat(cut.layout().HasKind(Placement::Kind::kBroadcast) ? "B" : "", IsPartial(cut) ? "P" : "");
}

std::string RanksText(const TensorCut& cut, const CutBox& box) {
  std::string text = NumberRanges(box.ranks);
  if (static_cast<int64_t>(box.ranks.size()) < cut.Holders()) absl::StrAppend(&text, ",…");
  return text;
}

std::string TitleOf(const TensorCut& cut, const CutBox& box) {
  const bool several = cut.Holders() > 1;
  return absl::StrCat(several ? "ranks " : "rank ", RanksText(cut, box),
                      !several         ? ""
                      : IsPartial(cut) ? " (P: each a term of the sum)"
                                       : " (B: the same on each)",
                      ": ", box.box.ToString());
}

// A label that fits, or nothing.
std::string LabelOf(const TensorCut& cut, const CutBox& box, double width, double height, double least) {
  if (height < least) return "";
  const std::string ranks = RanksText(cut, box);
  std::vector<std::string> labels = {ranks};
  if (cut.Holders() > 1) labels = {absl::StrCat(MarkOf(cut), " ", ranks), ranks, MarkOf(cut)};
  for (const std::string& label : labels) {
    if (TextWidth(label, TextStyle::kLabel) <= width - 2) return label;
  }
  return "";
}

// Joins rectangles that continue each other along u, then those that do along v.
std::vector<Patch> Merged(std::vector<Patch> patches) {
  for (const bool along_u : {true, false}) {
    // In tenths of pixels, as they are drawn.
    std::map<std::pair<int64_t, int64_t>, std::vector<Range>> lines;
    const auto tenth = [](double value) { return static_cast<int64_t>(std::llround(value * 10)); };
    for (const Patch& patch : patches) {
      const Range& across = along_u ? patch.v : patch.u;
      lines[{tenth(across.lo), tenth(across.hi)}].push_back(along_u ? patch.u : patch.v);
    }
    patches.clear();
    for (auto& [across, ranges] : lines) {
      std::sort(ranges.begin(), ranges.end(),
                [](const Range& a, const Range& b) { return std::tie(a.lo, a.hi) < std::tie(b.lo, b.hi); });
      std::vector<Range> joined;
      for (const Range& range : ranges) {
        if (!joined.empty() && range.lo <= joined.back().hi + 0.05) {
          joined.back().hi = std::max(joined.back().hi, range.hi);
        } else {
          joined.push_back(range);
        }
      }
      const Range other{static_cast<double>(across.first) / 10, static_cast<double>(across.second) / 10};
      for (const Range& range : joined) patches.push_back(along_u ? Patch{range, other} : Patch{other, range});
    }
  }
  return patches;
}

// Where a halo is along a dim: at least as wide as can be seen, away from the rank's own cells.
Range HaloRange(const Frame& frame, int dim, const Box& halo, const Box& own) {
  Range range = frame.Of(dim, dim < 0 ? Interval{} : halo[dim]);
  if (dim < 0 || range.hi - range.lo >= kLeastHalo) return range;
  if (halo[dim].hi <= own[dim].lo) {
    range.lo = std::max(0.0, range.hi - kLeastHalo);
  } else if (halo[dim].lo >= own[dim].hi) {
    range.hi = std::min(frame.Pixels(dim), range.lo + kLeastHalo);
  }
  return range;
}

// A slice: the boxes with one part of each dim that is not drawn.
struct Slice {
  std::vector<const CutBox*> boxes;
  Box box;  // of one of them: where the slice lies in the other dims
};

std::vector<Slice> SlicesOf(const Frame& frame) {
  std::vector<Slice> slices;
  std::map<std::vector<std::pair<int64_t, int64_t>>, size_t> known;
  for (const CutBox& box : frame.cut().boxes()) {
    std::vector<std::pair<int64_t, int64_t>> key;
    for (const int dim : frame.bars()) key.emplace_back(box.box[dim].lo, box.box[dim].hi);
    const auto [entry, is_new] = known.emplace(std::move(key), slices.size());
    if (is_new) slices.push_back({{}, box.box});
    slices[entry->second].boxes.push_back(&box);
  }
  return slices;
}

// Draws the slice's boxes that reach the face; returns how many were drawn.
void DrawFace(const Frame& frame, const Slice& slice, const Face& face, Drawing& drawing,
              std::set<const CutBox*>& drawn) {
  const TensorCut& cut = frame.cut();
  const Patch whole{{0, frame.Pixels(face.u)}, {0, frame.Pixels(face.v)}};
  AddPatch(face, whole, "rest", "", drawing);
  const auto range = [&](int dim, const Box& box) { return frame.Of(dim, dim < 0 ? Interval{} : box[dim]); };
  const auto patch_of = [&](const Box& box) { return Patch{range(face.u, box), range(face.v, box)}; };
  const auto shown = [&](const CutBox* box) { return frame.Has(box->box) && face.touches(box->box); };
  for (const CutBox* box : slice.boxes) {
    if (!shown(box)) continue;
    drawn.insert(box);
    const Patch patch = patch_of(box->box);
    const std::string title = TitleOf(cut, *box);
    const int stripes = std::min<int>(kMostStripes, static_cast<int>(box->ranks.size()));
    if (stripes == 1) {
      AddPatch(face, patch, absl::StrCat("b ", ColourOf(box->ranks[0])), title, drawing);
      continue;
    }
    const double step = (patch.u.hi - patch.u.lo) / stripes;
    for (int stripe = 0; stripe < stripes; ++stripe) {
      const Range u{patch.u.lo + step * stripe, patch.u.lo + step * (stripe + 1)};
      AddPatch(face, {u, patch.v}, ColourOf(box->ranks[stripe]), "", drawing);
    }
    AddPatch(face, patch, IsPartial(cut) ? "o q" : "o", title, drawing);
  }
  std::vector<Patch> hatched;
  for (const HaloBox& halo : cut.halos()) {
    if (!frame.Has(halo.box) || !face.touches(halo.box)) continue;
    for (const CutBox* box : slice.boxes) {
      if (!shown(box) || std::find(box->ranks.begin(), box->ranks.end(), halo.rank) == box->ranks.end()) continue;
      const auto along = [&](int dim) { return HaloRange(frame, dim, halo.box, box->box); };
      hatched.push_back({along(face.u), along(face.v)});
    }
  }
  for (const Patch& patch : Merged(std::move(hatched))) AddPatch(face, patch, "ha", "", drawing);
  if (!face.shade.empty()) AddPatch(face, whole, face.shade, "", drawing);
  for (const CutBox* box : slice.boxes) {
    if (!shown(box)) continue;
    const Patch patch = patch_of(box->box);
    // A text on a skew side has less room.
    const double width = (patch.u.hi - patch.u.lo) * (face.upright ? 1 : 0.7), height = patch.v.hi - patch.v.lo;
    const Point middle = face.at((patch.u.lo + patch.u.hi) / 2, (patch.v.lo + patch.v.hi) / 2);
    drawing.AddText({middle.x, middle.y + 4}, LabelOf(cut, *box, width, height, face.upright ? 12 : 16),
                    TextStyle::kLabel, Anchor::kMiddle);
  }
}

// The sides that are seen of what is drawn.
std::vector<Face> FacesOf(const Frame& frame) {
  const auto always = [](const Box&) { return true; };
  const std::vector<int>& drawn = frame.drawn();
  if (drawn.size() < 3) {
    Face face;
    face.u = drawn.empty() ? -1 : drawn.back();
    face.v = drawn.size() < 2 ? -1 : drawn.front();
    face.at = [](double u, double v) { return Point{u, v}; };
    face.touches = always;
    return {face};
  }
  // Depth goes to the right and up, height down, width to the right and down.
  const int d = drawn[0], h = drawn[1], w = drawn[2];
  const double depth = frame.Pixels(d), width = frame.Pixels(w);
  const int64_t extent = frame.cut().shape()[w];
  const auto at = [depth](double dd, double hh, double ww) {
    return Point{kCos30 * (ww + dd), 0.5 * (ww - dd + depth) + hh};
  };
  Face top, front, side;
  top.u = w, top.v = d, top.upright = false, top.shade = "lit";
  top.at = [at](double u, double v) { return at(v, 0, u); };
  top.touches = [h](const Box& box) { return box[h].lo == 0; };
  front.u = w, front.v = h, front.upright = false;
  front.at = [at](double u, double v) { return at(0, v, u); };
  front.touches = [d](const Box& box) { return box[d].lo == 0; };
  side.u = d, side.v = h, side.upright = false, side.shade = "dim";
  side.at = [at, width](double u, double v) { return at(u, v, width); };
  side.touches = [w, extent](const Box& box) { return box[w].hi == extent; };
  return {top, front, side};
}

// Draws a bar for each dim that is not drawn, with the slice's part of it filled.
void DrawBars(const Frame& frame, const TensorView& view, const Slice& slice, double width, double top, bool letters,
              Drawing& drawing) {
  for (size_t i = 0; i < frame.bars().size(); ++i) {
    const int dim = frame.bars()[i];
    const double y = top + static_cast<double>(i) * (kBarHeight + kBarGap + 3);
    const double extent = static_cast<double>(std::max<int64_t>(1, frame.cut().shape()[dim]));
    const Interval cells = slice.box[dim];
    const double lo = width * static_cast<double>(cells.lo) / extent,
                 hi = width * static_cast<double>(cells.hi) / extent;
    drawing.AddRect({0, y}, width, kBarHeight, "bo", absl::StrCat("dim ", dim, ": ", frame.cut().shape()[dim]));
    drawing.AddRect({lo, y}, std::max(1.5, hi - lo), kBarHeight, "bf",
                    absl::StrCat("dim ", dim, ": ", cells.ToString()));
    if (letters) {
      drawing.AddText({-4, y + 7}, std::string(1, view.roles[dim]), TextStyle::kSmall, Anchor::kEnd);
    }
  }
}

}  // namespace

std::string ColourOf(int rank) { return absl::StrCat("r", rank % kColours); }

TensorView TensorView::ForDims(int dims) {
  TensorView view;
  for (int dim = 0; dim < dims; ++dim) {
    const int from_end = dims - dim;
    const int space = dims <= 3 ? 2 : dims == 4 ? 2 : 3;
    view.roles += from_end <= space ? 's' : dim == 0 ? 'N' : dim == 1 ? 'C' : static_cast<char>('0' + dim % 10);
  }
  return view;
}

TensorView TensorView::WithoutChannels(int dims) {
  if (dims < 3 || dims > 4) return ForDims(dims);
  return {absl::StrCat("N", std::string(static_cast<size_t>(dims - 1), 's'))};
}

TensorView TensorView::Permuted(const std::vector<int64_t>& order) const {
  const int dims = static_cast<int>(order.size());
  std::vector<int64_t> sorted = order;
  for (int64_t& dim : sorted) dim = dim < 0 ? dim + dims : dim;
  const std::vector<int64_t> positive = sorted;
  std::sort(sorted.begin(), sorted.end());
  for (int dim = 0; dim < dims; ++dim) {
    if (sorted[dim] != dim || roles.size() != order.size()) return ForDims(dims);
  }
  TensorView view;
  for (const int64_t dim : positive) view.roles += roles[static_cast<size_t>(dim)];
  return view;
}

std::vector<int> TensorView::Drawn() const {
  std::vector<int> drawn;
  for (int dim = static_cast<int>(roles.size()) - 1; dim >= 0 && drawn.size() < 3; --dim) {
    if (roles[dim] == 's') drawn.insert(drawn.begin(), dim);
  }
  return drawn;
}

std::vector<int> TensorView::Bars() const {
  const std::vector<int> drawn = Drawn();
  std::vector<int> bars;
  for (int dim = 0; dim < static_cast<int>(roles.size()); ++dim) {
    if (std::find(drawn.begin(), drawn.end(), dim) == drawn.end()) bars.push_back(dim);
  }
  return bars;
}

TensorPicture DrawTensor(const TensorCut& cut, const TensorView& view, double side) {
  TensorPicture picture;
  if (cut.boxes().empty()) {
    picture.drawing.AddRect({0, 0}, kFlat * 2, kFlat, "rest");
    picture.note = "no cells";
    return picture;
  }
  const std::vector<Slice> slices = SlicesOf(Frame(cut, view, side));
  const Frame frame(cut, view, slices.size() > 2 ? side * 0.78 : side);
  const size_t shown = slices.size() > kMostSlices ? kMostSlices - 1 : slices.size();
  const double left = frame.bars().empty() ? 0 : kBarLetter;
  double x = left;
  std::set<const CutBox*> drawn;
  for (size_t i = 0; i < shown; ++i) {
    Drawing faces;
    for (const Face& face : FacesOf(frame)) DrawFace(frame, slices[i], face, faces, drawn);
    Drawing bars;
    DrawBars(frame, view, slices[i], faces.right(), faces.bottom() + 6, i == 0, bars);
    const double width = faces.right();
    picture.drawing.Add(faces, x, 0);
    picture.drawing.Add(bars, x, 0);
    x += width + kSliceGap;
  }
  if (shown < slices.size()) picture.drawing.AddText({x, picture.drawing.bottom() / 2}, "…", TextStyle::kTitle);
  const int64_t parts = cut.Parts();
  if (static_cast<int64_t>(drawn.size()) < parts && (frame.limited() || shown < slices.size() || !cut.complete())) {
    picture.note = absl::StrCat(drawn.size(), " of ", parts, " parts drawn");
  }
  return picture;
}

}  // namespace adjoin
