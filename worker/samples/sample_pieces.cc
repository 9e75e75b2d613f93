#include "worker/samples/sample_pieces.h"

#include <optional>
#include <vector>

#include "base/status_macros.h"

namespace adjoin {
namespace {

absl::Status Visit(FieldSource& source, int64_t sample, const Box& box, const std::atomic<bool>& stop,
                   const std::function<absl::Status(const Box& piece, double* cells)>& f, std::vector<double>& cells) {
  if (box.Volume() > kMostCellsAtOnce) {
    if (const std::optional<BoxCut> cut = source.CutOf(sample, box)) {
      Box half = box;
      half[cut->dim].hi = cut->at;
      ADJOIN_RETURN_IF_ERROR(Visit(source, sample, half, stop, f, cells));
      half[cut->dim] = {cut->at, box[cut->dim].hi};
      return Visit(source, sample, half, stop, f, cells);
    }
  }
  if (stop.load()) return absl::CancelledError("reading was stopped");
  cells.resize(static_cast<size_t>(box.Volume()));
  ADJOIN_RETURN_IF_ERROR(source.Read(sample, 1, box, cells.data()));
  return f(box, cells.data());
}

}  // namespace

absl::Status ForEachSamplePiece(FieldSource& source, int64_t sample, const Box& box, const std::atomic<bool>& stop,
                                const std::function<absl::Status(const Box& piece, double* cells)>& f) {
  std::vector<double> cells;
  return Visit(source, sample, box, stop, f, cells);
}

}  // namespace adjoin
