// Which cells of which sample of the files stand at a place of an epoch: shuffling, blocks, flips and shifts.
//
//   ADJOIN_ASSIGN_OR_RETURN(auto places, SamplePlaces::Create(dataset, seed, /*in_files=*/60000));
//   SamplePlace place = places->At(/*training=*/true, /*epoch=*/2, /*place=*/128);
//   place.sample;            // 7: of the files
//   place.dims[0].first;     // the sample begins at this cell of the file's sample in its last dim but one
//
// Everything is a function of the seed, the epoch and the place, so all ranks agree, however many there are. One thread.
#ifndef ADJOIN_WORKER_SAMPLES_SAMPLE_PLACES_H_
#define ADJOIN_WORKER_SAMPLES_SAMPLE_PLACES_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "planner/spec/augment.h"
#include "primitives/geometry/box.h"
#include "proto/job.pb.h"

namespace adjoin {

// Where a sample lies in the file's sample, in one spatial dim: from `first` on, and mirrored within its own extent, which is
// each field's own. A cell that the file's sample does not have is 0.
struct DimPlace {
  int64_t first = 0;
  bool mirrored = false;

  // The cell of the file's sample that cell `cell` is of a sample with `extent` cells; may lie outside of it.
  int64_t CellOf(int64_t cell, int64_t extent) const { return first + (mirrored ? extent - 1 - cell : cell); }
  // Likewise of neighbouring cells; mirrored, the first comes last.
  Interval In(Interval cells, int64_t extent) const {
    return mirrored ? Interval{first + extent - cells.hi, first + extent - cells.lo}
                    : Interval{first + cells.lo, first + cells.hi};
  }
  friend bool operator==(const DimPlace& a, const DimPlace& b) { return a.first == b.first && a.mirrored == b.mirrored; }
};

struct SamplePlace {
  int64_t sample = 0;          // in the files
  std::vector<DimPlace> dims;  // of the spatial dims (SpatialDims), in order; empty: every sample is as in the file
  friend bool operator==(const SamplePlace& a, const SamplePlace& b) { return a.sample == b.sample && a.dims == b.dims; }
};

class SamplePlaces {
 public:
  // `in_files`: samples that the files hold.
  // Errors: as ParseAugment; kInvalidArgument (no samples; a block larger than the samples).
  static absl::StatusOr<std::unique_ptr<SamplePlaces>> Create(const Dataset& dataset, uint64_t seed, int64_t in_files);

  // In an epoch.
  int64_t count() const { return count_; }

  // `place`: 0 .. count() - 1. Only `training` shuffles and augments and has other blocks in each epoch; else the samples
  // are in the files' order, and blocks are those of epoch 0.
  SamplePlace At(bool training, int64_t epoch, int64_t place);

 private:
  SamplePlaces(const Dataset& dataset, uint64_t seed, Augment augment)
      : dataset_(dataset), seed_(seed), augment_(std::move(augment)) {}
  int64_t Ordered(int64_t epoch, int64_t place);

  const Dataset dataset_;
  const uint64_t seed_;
  const Augment augment_;
  std::vector<int64_t> whole_;   // extents of the files' samples in the spatial dims
  std::vector<int64_t> extent_;  // of a sample: those of a block, or `whole_`
  int64_t in_files_ = 0;         // of them, those that are used
  int64_t count_ = 0;
  int64_t order_epoch_ = -1;
  std::vector<int64_t> order_;
};

}  // namespace adjoin

#endif  // ADJOIN_WORKER_SAMPLES_SAMPLE_PLACES_H_
