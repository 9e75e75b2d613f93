#include "worker/samples/sample_positions.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "planner/spec/grid_strides.h"
#include "planner/spec/sample_shape.h"
#include "primitives/geometry/box.h"
#include "primitives/random/philox.h"

namespace adjoin {
namespace {

// Random numbers for one position: far more than a sample has dims.
constexpr uint64_t kNumbersPerPosition = 64;
constexpr uint64_t kShiftNumbers = 32;       // after the numbers of the flips
constexpr uint64_t kForegroundNumbers = 32;  // after those of the block's sample and position

}  // namespace

absl::StatusOr<std::unique_ptr<SamplePositions>> SamplePositions::Create(const Dataset& dataset, uint64_t seed,
                                                                         int64_t in_files,
                                                                         const SampleExtents& extents) {
  ADJOIN_ASSIGN_OR_RETURN(Augment augment, ParseAugment(dataset));
  std::unique_ptr<SamplePositions> positions(new SamplePositions(dataset, seed, std::move(augment)));
  positions->in_files_ = UsedSamples(dataset, in_files);
  positions->count_ = SampleCount(dataset, in_files);
  if (positions->count_ < 1) {
    return absl::InvalidArgumentError(absl::StrCat("data set \"", dataset.name(), "\" has no samples"));
  }
  const int spatial = SpatialDims(dataset);
  const auto has = std::find_if(dataset.field().begin(), dataset.field().end(),
                                [&](const Field& field) { return HasSpatialDims(dataset, field.shape_size()); });
  if (has == dataset.field().end()) {
    if (!dataset.has_blocks()) return positions;
    return absl::InvalidArgumentError(
        absl::StrCat("data set \"", dataset.name(), "\": no field has the ", spatial, " dims of a block"));
  }
  positions->whole_.assign(has->shape().end() - spatial, has->shape().end());
  positions->extent_ = positions->whole_;
  if (dataset.has_blocks()) positions->extent_.assign(dataset.blocks().size().begin(), dataset.blocks().size().end());
  positions->common_ = CommonStrides(dataset);
  if (HasVaryingExtents(*has)) {
    if (extents.size() < positions->in_files_) {
      return absl::InvalidArgumentError(absl::StrCat("data set \"", dataset.name(), "\": the extents of ",
                                                     extents.size(), " of ", in_files, " samples are known"));
    }
    positions->extents_ = extents;  // SampleExtents::Add has compared them with the block
    ADJOIN_RETURN_IF_ERROR(positions->CountCells());
    return positions;
  }
  for (int dim = 0; dim < spatial; ++dim) {
    if (positions->extent_[dim] >= 1 && positions->extent_[dim] <= positions->whole_[dim]) continue;
    return absl::InvalidArgumentError(absl::StrCat("data set \"", dataset.name(), "\": a block has ",
                                                   positions->extent_[dim], " cells where field \"", has->name(),
                                                   "\" has ", positions->whole_[dim]));
  }
  return positions;
}

absl::Status SamplePositions::CountCells() {
  if (dataset_.blocks().by() != "cell") return absl::OkStatus();
  int64_t sum = 0;
  for (int64_t sample = 0; sample < in_files_; ++sample) {
    int64_t cells = 1;
    bool overflow = false;
    for (int64_t extent : extents_[sample]) overflow |= __builtin_mul_overflow(cells, extent, &cells);
    overflow |= __builtin_add_overflow(sum, cells, &sum);
    if (overflow) {
      return absl::InvalidArgumentError(absl::StrCat("data set \"", dataset_.name(),
                                                     "\": its samples have more than 2^63 cells, so none can be drawn"
                                                     " by \"cell\""));
    }
    cells_.push_back(sum);
  }
  return absl::OkStatus();
}

int64_t SamplePositions::Ordered(int64_t epoch, int64_t position) {
  // Blocks are drawn at random; another order of them is nothing new, and there may be more than fit in memory.
  if (!dataset_.shuffle() || dataset_.has_blocks()) return position;
  if (epoch != order_epoch_) {
    order_ = Permutation(seed_, kPurposeShuffle, static_cast<uint64_t>(epoch), count_);
    order_epoch_ = epoch;
  }
  return order_[position];
}

// The random numbers of a block, from `numbers` on: its sample, its position in each dim; from kForegroundNumbers on
// whether it has a label in its middle, which label, which cell of it.
absl::Status SamplePositions::DrawBlock(const RandomStream& stream, uint64_t numbers, const std::atomic<bool>* stop,
                                        SamplePosition& found) {
  if (cells_.empty()) {
    found.sample = static_cast<int64_t>(stream.BelowAt(numbers, in_files_));
  } else {
    const auto cell = static_cast<int64_t>(stream.BelowAt(numbers, cells_.back()));
    found.sample = std::upper_bound(cells_.begin(), cells_.end(), cell) - cells_.begin();
  }
  const std::vector<int64_t>& whole = ExtentsOf(found.sample);
  for (size_t dim = 0; dim < whole.size(); ++dim) {
    const int64_t steps = (whole[dim] - extent_[dim]) / common_[dim];
    found.dims[dim].first = static_cast<int64_t>(stream.BelowAt(numbers + 1 + dim, steps + 1)) * common_[dim];
  }
  const uint64_t more = numbers + kForegroundNumbers;
  if (labels_ == nullptr || stream.UniformAt(more) >= dataset_.blocks().foreground().share()) return absl::OkStatus();
  static const std::atomic<bool>* const never = new std::atomic<bool>(false);
  ADJOIN_ASSIGN_OR_RETURN(const std::vector<LabelCells::OfLabel>* const labels,
                          labels_->Of(found.sample, stop != nullptr ? *stop : *never));
  if (labels->empty()) return absl::OkStatus();
  const std::vector<int64_t>& cells = (*labels)[stream.BelowAt(more + 1, labels->size())].cell;
  const std::vector<int64_t> middle = Box::Whole(whole).CellAt(cells[stream.BelowAt(more + 2, cells.size())]);
  for (size_t dim = 0; dim < whole.size(); ++dim) {
    // The nearest multiple, so that the cell stays in the block.
    const int64_t nearest = (std::max<int64_t>(0, middle[dim] - extent_[dim] / 2) + common_[dim] / 2) / common_[dim];
    found.dims[dim].first = std::min(nearest, (whole[dim] - extent_[dim]) / common_[dim]) * common_[dim];
  }
  return absl::OkStatus();
}

absl::StatusOr<SamplePosition> SamplePositions::At(bool training, int64_t epoch, int64_t position,
                                                   const std::atomic<bool>* stop) {
  SamplePosition found;
  found.sample = training ? Ordered(epoch, position) : position;
  const uint64_t epoch_drawn = training ? static_cast<uint64_t>(epoch) : 0;
  const bool augments = training && !augment_.empty();
  if (!dataset_.has_blocks() && !augments) return found;
  found.dims.resize(whole_.size());
  if (dataset_.has_blocks()) {
    const RandomStream stream(seed_, kPurposeBlocks, epoch_drawn);
    const uint64_t numbers = static_cast<uint64_t>(found.sample) * kNumbersPerPosition;
    ADJOIN_RETURN_IF_ERROR(DrawBlock(stream, numbers, stop, found));
  }
  if (!augments) return found;
  const RandomStream stream(seed_, kPurposeAugment, epoch_drawn);
  const uint64_t numbers = static_cast<uint64_t>(position) * kNumbersPerPosition;
  for (int from_last : augment_.flip) {
    if (stream.UniformAt(numbers + from_last) >= 0.5) continue;
    found.dims[whole_.size() - 1 - from_last].mirrored = true;
  }
  for (size_t dim = 0; augment_.shift > 0 && dim < whole_.size(); ++dim) {
    const auto cells = static_cast<int64_t>(stream.BelowAt(numbers + kShiftNumbers + dim, 2 * augment_.shift + 1));
    found.dims[dim].first += cells - augment_.shift;
  }
  return found;
}

}  // namespace adjoin
