// The extents of each sample of a data set whose files differ in them (Field.shape with -1), in its spatial dims: those
// of its blocks, or of its whole volumes.
//
//   SampleExtents extents(dataset);                                       // blocks { size: [64, 64, 64] }
//   ADJOIN_RETURN_IF_ERROR(extents.Add("image", "ct/a.nii.gz", {1, 140, 512, 512}));
//   ADJOIN_RETURN_IF_ERROR(extents.Add("image", "ct/b.nii.gz", {1, 98, 512, 512}));
//   ADJOIN_RETURN_IF_ERROR(extents.Add("label", "labels/a.npy", {140, 512, 512}));
//   extents[1];          // {98, 512, 512}
//   extents.Hash();      // what ranks compare with the plan's
//
// One thread.
#ifndef ADJOIN_WORKER_SAMPLES_SAMPLE_EXTENTS_H_
#define ADJOIN_WORKER_SAMPLES_SAMPLE_EXTENTS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "proto/job.pb.h"

namespace adjoin {

class SampleExtents {
 public:
  // None.
  SampleExtents() = default;
  explicit SampleExtents(const Dataset& dataset);

  // Takes the shape of the next sample of a field. The fields come one after the other, in the data set's order; the
  // first one has the finest grid.
  // Errors: kInvalidArgument, with the name of the file (the sample is smaller than a block, or has too few dims; an
  // earlier field has other extents for this sample, or not those that the field's coarser grid follows from).
  absl::Status Add(const std::string& field, const std::string& file, const std::vector<int64_t>& shape);

  bool empty() const { return samples_.empty(); }
  int64_t size() const { return static_cast<int64_t>(samples_.size()); }
  const std::vector<int64_t>& operator[](int64_t sample) const { return samples_[sample].extents; }
  // Returns the name of the sample's file, of the first field.
  const std::string& FileOf(int64_t sample) const { return samples_[sample].file; }
  // Returns a hash of all samples' extents in order, never 0.
  uint64_t Hash() const;

 private:
  struct Sample {
    std::string file;  // of the first field
    std::vector<int64_t> extents;
  };

  size_t dims_ = 0;
  std::vector<int64_t> block_;  // empty without blocks
  // By field: how much coarser its grid is, for each spatial dim; 0 where its extent is the same in all files.
  std::map<std::string, std::vector<int64_t>> strides_;
  std::vector<Sample> samples_;
  std::string first_field_;
  std::string field_;  // the one that is added now
  int64_t at_ = 0;     // its samples so far
};

}  // namespace adjoin

#endif  // ADJOIN_WORKER_SAMPLES_SAMPLE_EXTENTS_H_
