#include "worker/samples/sample_places.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "planner/spec/sample_shape.h"
#include "primitives/random/philox.h"

namespace adjoin {
namespace {

// Numbers of one place: far more than a sample has dims.
constexpr uint64_t kNumbersPerPlace = 64;
constexpr uint64_t kShiftNumbers = 32;  // after those of the flips

}  // namespace

absl::StatusOr<std::unique_ptr<SamplePlaces>> SamplePlaces::Create(const Dataset& dataset, uint64_t seed,
                                                                   int64_t in_files) {
  ADJOIN_ASSIGN_OR_RETURN(Augment augment, ParseAugment(dataset));
  std::unique_ptr<SamplePlaces> places(new SamplePlaces(dataset, seed, std::move(augment)));
  places->in_files_ = dataset.has_limit() ? std::min(dataset.limit(), in_files) : in_files;
  places->count_ = SampleCount(dataset, in_files);
  if (places->count_ < 1) {
    return absl::InvalidArgumentError(absl::StrCat("data set \"", dataset.name(), "\" has no samples"));
  }
  const int spatial = SpatialDims(dataset);
  const auto has = std::find_if(dataset.field().begin(), dataset.field().end(),
                                [&](const Field& field) { return HasSpatialDims(dataset, field.shape_size()); });
  if (has == dataset.field().end()) {
    if (!dataset.has_blocks()) return places;
    return absl::InvalidArgumentError(
        absl::StrCat("data set \"", dataset.name(), "\": no field has the ", spatial, " dims of a block"));
  }
  places->whole_.assign(has->shape().end() - spatial, has->shape().end());
  places->extent_ = places->whole_;
  if (dataset.has_blocks()) places->extent_.assign(dataset.blocks().size().begin(), dataset.blocks().size().end());
  for (int dim = 0; dim < spatial; ++dim) {
    if (places->extent_[dim] >= 1 && places->extent_[dim] <= places->whole_[dim]) continue;
    return absl::InvalidArgumentError(absl::StrCat("data set \"", dataset.name(), "\": a block has ",
                                                   places->extent_[dim], " cells where field \"", has->name(), "\" has ",
                                                   places->whole_[dim]));
  }
  return places;
}

int64_t SamplePlaces::Ordered(int64_t epoch, int64_t place) {
  // Blocks are drawn at random; another order of them is nothing new, and there may be more than fit in memory.
  if (!dataset_.shuffle() || dataset_.has_blocks()) return place;
  if (epoch != order_epoch_) {
    order_ = Permutation(seed_, kPurposeShuffle, static_cast<uint64_t>(epoch), count_);
    order_epoch_ = epoch;
  }
  return order_[place];
}

SamplePlace SamplePlaces::At(bool training, int64_t epoch, int64_t place) {
  SamplePlace found;
  found.sample = training ? Ordered(epoch, place) : place;
  const uint64_t epoch_drawn = training ? static_cast<uint64_t>(epoch) : 0;
  const bool augments = training && !augment_.empty();
  if (!dataset_.has_blocks() && !augments) return found;
  found.dims.resize(whole_.size());
  if (dataset_.has_blocks()) {
    const RandomStream stream(seed_, kPurposeBlocks, epoch_drawn);
    const uint64_t numbers = static_cast<uint64_t>(found.sample) * kNumbersPerPlace;
    found.sample = static_cast<int64_t>(stream.BelowAt(numbers, in_files_));
    for (size_t dim = 0; dim < whole_.size(); ++dim) {
      found.dims[dim].first = static_cast<int64_t>(stream.BelowAt(numbers + 1 + dim, whole_[dim] - extent_[dim] + 1));
    }
  }
  if (!augments) return found;
  const RandomStream stream(seed_, kPurposeAugment, epoch_drawn);
  const uint64_t numbers = static_cast<uint64_t>(place) * kNumbersPerPlace;
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
