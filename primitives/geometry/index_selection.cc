#include "primitives/geometry/index_selection.h"

#include <algorithm>
#include <numeric>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace adjoin {
namespace {

constexpr size_t kMostRuns = 64;
constexpr int64_t kMost = int64_t{1} << 46;

int64_t Modulo(int64_t value, int64_t modulus) {
  const int64_t rest = value % modulus;
  return rest < 0 ? rest + modulus : rest;
}

}  // namespace

IndexSelection::IndexSelection(std::vector<int64_t> indices) : is_list_(true), indices_(std::move(indices)) {
  options_.outputs = static_cast<int64_t>(indices_.size());
}

absl::StatusOr<IndexSelection> IndexSelection::Cyclic(const Options& options) {
  if (options.outputs < 0 || options.outputs > kMost || options.modulus < (options.outputs > 0 ? 1 : 0) ||
      options.modulus > kMost || (options.step != 1 && options.step != -1)) {
    return absl::InvalidArgumentError(absl::StrCat("a selection of ", options.outputs, " outputs in steps of ",
                                                   options.step, ", modulo ", options.modulus));
  }
  IndexSelection selection(options);
  selection.options_.start = options.modulus > 0 ? Modulo(options.start, options.modulus) : 0;
  return selection;
}

absl::StatusOr<IndexSelection> IndexSelection::Of(std::vector<int64_t> indices) {
  for (int64_t index : indices) {
    if (index < 0) return absl::InvalidArgumentError(absl::StrCat("a selection of the cell ", index));
  }
  return IndexSelection(std::move(indices));
}

absl::StatusOr<int64_t> IndexSelection::OutputSize(int64_t n) const {
  if (is_list_) {
    for (int64_t index : indices_) {
      if (index >= n) return absl::InvalidArgumentError(absl::StrCat("a selection of the cell ", index, " of ", n));
    }
  } else if (options_.outputs > 0 && (options_.modulus < n || (options_.step < 0 && options_.modulus != n))) {
    return absl::InvalidArgumentError(absl::StrCat(ToString(), ", of ", n, " cells"));
  }
  return options_.outputs;
}

int64_t IndexSelection::CellOf(int64_t output) const {
  if (is_list_) return indices_[output];
  return Modulo(options_.start + options_.step * Modulo(output, options_.modulus), options_.modulus);
}

std::vector<Interval> IndexSelection::Runs(Interval outputs) const {
  std::vector<Interval> runs;
  if (!is_list_ && !outputs.empty()) {
    const int64_t modulus = options_.modulus;
    if (outputs.size() >= modulus) return {{0, modulus}};
    // The first and the last cell, in ascending order.
    const int64_t low = CellOf(options_.step > 0 ? outputs.lo : outputs.hi - 1);
    const int64_t high = low + outputs.size();
    if (high <= modulus) return {{low, high}};
    return {{0, high - modulus}, {low, modulus}};
  }
  std::vector<int64_t> cells;
  for (int64_t i = outputs.lo; i < outputs.hi; ++i) cells.push_back(indices_[i]);
  std::sort(cells.begin(), cells.end());
  for (int64_t cell : cells) {
    if (!runs.empty() && cell < runs.back().hi) continue;
    if (!runs.empty() && cell == runs.back().hi) {
      ++runs.back().hi;
    } else {
      runs.push_back({cell, cell + 1});
    }
  }
  if (runs.size() <= kMostRuns) return runs;
  // Scattered cells would take longer to list than those between them take to move: the widest gaps stay.
  std::vector<size_t> gaps(runs.size() - 1);  // by the run before
  std::iota(gaps.begin(), gaps.end(), size_t{0});
  const auto wider = [&runs](size_t a, size_t b) {
    const int64_t width_a = runs[a + 1].lo - runs[a].hi, width_b = runs[b + 1].lo - runs[b].hi;
    return width_a != width_b ? width_a > width_b : a < b;
  };
  std::nth_element(gaps.begin(), gaps.begin() + kMostRuns - 1, gaps.end(), wider);
  std::sort(gaps.begin(), gaps.begin() + kMostRuns - 1);
  std::vector<Interval> joined;
  int64_t first = runs.front().lo;
  for (size_t i = 0; i < kMostRuns - 1; ++i) {
    joined.push_back({first, runs[gaps[i]].hi});
    first = runs[gaps[i] + 1].lo;
  }
  joined.push_back({first, runs.back().hi});
  return joined;
}

Interval IndexSelection::Reads(Interval outputs, int64_t n) const {
  const Need need = Needed(outputs, n);
  if (need.segments.empty()) return {0, 0};
  Interval hull = need.segments[0].source;
  for (const Segment& segment : need.segments) {
    hull = {std::min(hull.lo, segment.source.lo), std::max(hull.hi, segment.source.hi)};
  }
  return hull;
}

Need IndexSelection::Needed(Interval outputs, int64_t n) const {
  Need need{outputs.size(), outputs.size(), {}};
  if (outputs.empty()) return {};
  if (InPlace(outputs)) {
    // At most once around: one or two runs, of which the part within the input is covered.
    for (int64_t at = 0; at < outputs.size();) {
      const int64_t first = CellOf(outputs.lo + at);
      const int64_t length = std::min(outputs.size() - at, options_.modulus - first);
      const Interval inside = Interval{first, first + length}.Intersect({0, n});
      if (!inside.empty()) need.segments.push_back({inside, at + inside.lo - first});
      at += length;
    }
    return need;
  }
  need.fetched = 0;
  for (const Interval& run : Runs(outputs)) {
    const Interval inside = run.Intersect({0, n});
    if (!inside.empty()) need.segments.push_back({inside, need.fetched});
    need.fetched += run.size();
  }
  return need;
}

std::vector<int64_t> IndexSelection::IndexMap(Interval outputs, int64_t n) const {
  if (outputs.empty() || InPlace(outputs)) return {};
  const std::vector<Interval> runs = Runs(outputs);
  std::vector<int64_t> starts;  // the start of each run in the tensor that is fetched
  int64_t fetched = 0;
  for (const Interval& run : runs) {
    starts.push_back(fetched);
    fetched += run.size();
  }
  std::vector<int64_t> map;
  map.reserve(outputs.size());
  bool same = fetched == outputs.size();
  for (int64_t i = outputs.lo; i < outputs.hi; ++i) {
    const int64_t cell = CellOf(i);
    const auto run = std::upper_bound(runs.begin(), runs.end(), cell,
                                      [](int64_t value, const Interval& r) { return value < r.lo; }) -
                     1;
    map.push_back(starts[run - runs.begin()] + cell - run->lo);
    same = same && map.back() == i - outputs.lo;
  }
  return same ? std::vector<int64_t>() : map;
}

std::string IndexSelection::ToString() const {
  if (is_list_) return absl::StrCat(indices_.size(), " of a list");
  return absl::StrCat(options_.outputs == options_.modulus ? "" : absl::StrCat(options_.outputs, " of "),
                      options_.step > 0 ? "roll" : "mirror", " from ", options_.start, " of ", options_.modulus);
}

}  // namespace adjoin
