// The position in the files of each sample of an epoch: shuffling, blocks, flips and shifts.
//
//   ADJOIN_ASSIGN_OR_RETURN(auto positions, SamplePositions::Create(dataset, seed, /*in_files=*/60000));
//   ADJOIN_ASSIGN_OR_RETURN(SamplePosition position, positions->At(/*training=*/true, /*epoch=*/2, /*position=*/128));
//   position.sample;            // 7: the eighth sample of the files
//   position.dims[0].first;     // the sample begins at this cell of the files' sample, in the first spatial dim
//
// Everything is a function of the seed, the epoch and the position in it, so any number of ranks agree. One thread.
#ifndef ADJOIN_WORKER_SAMPLES_SAMPLE_POSITIONS_H_
#define ADJOIN_WORKER_SAMPLES_SAMPLE_POSITIONS_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "planner/spec/augment.h"
#include "primitives/geometry/box.h"
#include "primitives/random/philox.h"
#include "proto/job.pb.h"
#include "worker/samples/label_cells.h"
#include "worker/samples/sample_extents.h"

namespace adjoin {

// The cells of the file's sample that a sample has, in one spatial dim of the finest grid (grid_strides.h): from
// `first` on, and mirrored within the sample's own extent, which differs by field. A cell that the file's sample does
// not have is 0.
struct DimPosition {
  int64_t first = 0;
  bool mirrored = false;

  // Returns the cell of the file's sample for cell `cell` of a sample with `extent` cells; it may be outside of the
  // file's.
  int64_t CellOf(int64_t cell, int64_t extent) const { return first + (mirrored ? extent - 1 - cell : cell); }
  // Returns the same for neighbouring cells; where they are mirrored, the first comes last.
  Interval In(Interval cells, int64_t extent) const {
    return mirrored ? Interval{first + extent - cells.hi, first + extent - cells.lo}
                    : Interval{first + cells.lo, first + cells.hi};
  }
  // Returns the position on a grid that is coarser by `stride`, of which `first` is a multiple.
  DimPosition OnGrid(int64_t stride) const { return {first / stride, mirrored}; }
  friend bool operator==(const DimPosition& a, const DimPosition& b) {
    return a.first == b.first && a.mirrored == b.mirrored;
  }
};

struct SamplePosition {
  int64_t sample = 0;             // in the files
  std::vector<DimPosition> dims;  // the spatial dims (SpatialDims), in order; empty: every sample is as in the file
  friend bool operator==(const SamplePosition& a, const SamplePosition& b) {
    return a.sample == b.sample && a.dims == b.dims;
  }
};

class SamplePositions {
 public:
  // `in_files`: samples that the files hold. `extents`: of each of them, where Field.shape has -1; else empty.
  // Errors: as ParseAugment; kInvalidArgument (no samples; a block larger than the samples; more cells than 2^63 - 1).
  static absl::StatusOr<std::unique_ptr<SamplePositions>> Create(const Dataset& dataset, uint64_t seed,
                                                                 int64_t in_files, const SampleExtents& extents = {});

  // Where the labels of Blocks.foreground are; without it, no block is drawn around one. `labels` must outlive this.
  void SetForeground(LabelCells* labels) { labels_ = labels; }

  // The number of samples in an epoch.
  int64_t count() const { return count_; }

  // `position`: in the epoch, 0 .. count() - 1. Only `training` shuffles and augments and has other blocks in each
  // epoch; else the samples are in the files' order, and the blocks are those of epoch 0.
  // Errors: as LabelCells::Of; `stop` may be null.
  absl::StatusOr<SamplePosition> At(bool training, int64_t epoch, int64_t position,
                                    const std::atomic<bool>* stop = nullptr);

 private:
  SamplePositions(const Dataset& dataset, uint64_t seed, Augment augment)
      : dataset_(dataset), seed_(seed), augment_(std::move(augment)) {}
  absl::Status CountCells();
  int64_t Ordered(int64_t epoch, int64_t position);
  absl::Status DrawBlock(const RandomStream& stream, uint64_t numbers, const std::atomic<bool>* stop,
                         SamplePosition& found);
  const std::vector<int64_t>& ExtentsOf(int64_t sample) const { return extents_.empty() ? whole_ : extents_[sample]; }

  const Dataset dataset_;
  const uint64_t seed_;
  const Augment augment_;
  std::vector<int64_t> whole_;   // extents of the files' samples in the spatial dims, unless they have their own
  SampleExtents extents_;        // their own
  std::vector<int64_t> cells_;   // of this sample and all before it, where blocks are drawn in proportion to them
  std::vector<int64_t> extent_;  // a sample's: those of a block, or `whole_`
  std::vector<int64_t> common_;  // a block begins at multiples of these
  LabelCells* labels_ = nullptr;
  int64_t in_files_ = 0;  // the files' samples that are used
  int64_t count_ = 0;
  int64_t order_epoch_ = -1;
  std::vector<int64_t> order_;
};

}  // namespace adjoin

#endif  // ADJOIN_WORKER_SAMPLES_SAMPLE_POSITIONS_H_
