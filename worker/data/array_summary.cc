#include "worker/data/array_summary.h"

#include <cmath>

#include <algorithm>
#include <utility>

#include "base/status_macros.h"
#include "worker/data/box_runs.h"
#include "worker/data/running_sum.h"

namespace adjoin {
namespace {

constexpr int64_t kPieceCells = 1 << 18;
constexpr int kBins = 16;

std::vector<int64_t> IndexOf(const std::vector<int64_t>& shape, int64_t cell) {
  std::vector<int64_t> index(shape.size());
  for (size_t dim = shape.size(); dim-- > 0; cell /= shape[dim]) index[dim] = cell % shape[dim];
  return index;
}

// Calls `f(cell, value)` for every cell; `cell` is its number in row-major order. Cells come in pieces that are stored
// together in the file.
template <typename F>
absl::Status ForEachCell(ArrayFile& file, F f) {
  std::vector<double> values;
  const ArrayHeader& header = file.header();
  std::vector<int64_t> shape = header.shape;
  if (header.fortran) std::reverse(shape.begin(), shape.end());
  return ForEachPiece(shape, kPieceCells, [&](const Box& piece) -> absl::Status {
    std::vector<Interval> dims;
    for (int dim = 0; dim < piece.dims(); ++dim) dims.push_back(piece[dim]);
    if (header.fortran) std::reverse(dims.begin(), dims.end());
    const Box box(std::move(dims));
    values.resize(static_cast<size_t>(box.Volume()));
    ADJOIN_RETURN_IF_ERROR(file.Read(box, values.data()));
    const double* value = values.data();
    return ForEachRun(header.shape, box, [&](const CellRun& run) {
      for (int64_t i = 0; i < run.count; ++i) f(run.first + i, *value++);
      return absl::OkStatus();
    });
  });
}

void MakeBins(bool whole, ArraySummary& summary) {
  const double range = summary.max - summary.min;
  if (whole && range < kBins) {
    for (int i = 0; i <= static_cast<int>(range); ++i) summary.bins.push_back({summary.min + i, summary.min + i, 0});
    return;
  }
  if (range == 0) {
    summary.bins.push_back({summary.min, summary.min, 0});
    return;
  }
  // Not min + i * width: the widest range has no width that is a number.
  const auto edge = [&](double i) { return summary.min * (1 - i / kBins) + summary.max * (i / kBins); };
  for (int i = 0; i < kBins; ++i) summary.bins.push_back({edge(i), edge(i + 1), 0});
  summary.bins.back().hi = summary.max;
}

size_t BinOf(const ArraySummary& summary, double value) {
  const auto& bins = summary.bins;
  if (bins.back().lo == bins.back().hi) return static_cast<size_t>(value - summary.min);
  const auto next = std::upper_bound(bins.begin(), bins.end(), value,
                                     [](double v, const ArraySummary::Bin& bin) { return v < bin.lo; });
  return static_cast<size_t>(std::max<int64_t>(next - bins.begin(), 1) - 1);
}

}  // namespace

absl::Status ForEachPiece(const std::vector<int64_t>& shape, int64_t cells,
                          const std::function<absl::Status(const Box&)>& f) {
  Box box = Box::Whole(shape);
  if (box.empty()) return absl::OkStatus();
  // A piece has the whole extents of the dims after `cut`, and one cell in each dim before `cut`.
  int cut = box.dims();
  int64_t inner = 1;
  while (cut > 0 && inner * shape[cut - 1] <= cells) inner *= shape[--cut];
  if (cut == 0) return f(box);
  --cut;
  const int64_t step = std::max<int64_t>(1, cells / inner);
  for (int dim = 0; dim < cut; ++dim) box[dim] = {0, 1};
  for (;;) {
    for (int64_t at = 0; at < shape[cut]; at += step) {
      box[cut] = {at, std::min(at + step, shape[cut])};
      ADJOIN_RETURN_IF_ERROR(f(box));
    }
    int dim = cut - 1;
    for (; dim >= 0; --dim) {
      box[dim] = {box[dim].hi, box[dim].hi + 1};
      if (box[dim].lo < shape[dim]) break;
      box[dim] = {0, 1};
    }
    if (dim < 0) return absl::OkStatus();
  }
}

absl::StatusOr<ArraySummary> Summarise(ArrayFile& file) {
  ArraySummary summary;
  const std::vector<int64_t>& shape = file.header().shape;
  RunningSum sum;
  bool whole = true;
  int64_t first_nan = 0;
  int64_t first_infinite = 0;
  ADJOIN_RETURN_IF_ERROR(ForEachCell(file, [&](int64_t cell, double value) {
    ++summary.cells;
    if (std::isnan(value)) {
      first_nan = summary.nan_count++ == 0 ? cell : std::min(first_nan, cell);
    } else if (std::isinf(value)) {
      first_infinite = summary.infinite_count++ == 0 ? cell : std::min(first_infinite, cell);
    } else {
      if (summary.finite == 0 || value < summary.min) summary.min = value;
      if (summary.finite == 0 || value > summary.max) summary.max = value;
      ++summary.finite;
      sum.Add(value);
      whole = whole && value == std::floor(value);
    }
  }));
  if (summary.nan_count > 0) summary.first_nan = IndexOf(shape, first_nan);
  if (summary.infinite_count > 0) summary.first_infinite = IndexOf(shape, first_infinite);
  if (summary.finite == 0) return summary;
  summary.mean = sum.value() / static_cast<double>(summary.finite);
  MakeBins(whole, summary);
  ADJOIN_RETURN_IF_ERROR(ForEachCell(file, [&](int64_t, double value) {
    if (std::isfinite(value)) ++summary.bins[BinOf(summary, value)].count;
  }));
  return summary;
}

}  // namespace adjoin
