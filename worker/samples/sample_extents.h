// The extents of each sample of a data set whose files differ in them (Field.shape with -1), in the dims of its blocks.
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

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "proto/job.pb.h"

namespace adjoin {

class SampleExtents {
 public:
  // None.
  SampleExtents() = default;
  explicit SampleExtents(const Dataset& dataset)
      : block_(dataset.blocks().size().begin(), dataset.blocks().size().end()) {}

  // Takes the shape of the next sample of a field. The fields come one after the other.
  // Errors: kInvalidArgument, with the name of the file (the sample is smaller than a block, or has fewer dims; an
  // earlier field has other extents for this sample).
  absl::Status Add(const std::string& field, const std::string& file, const std::vector<int64_t>& shape);

  bool empty() const { return samples_.empty(); }
  int64_t size() const { return static_cast<int64_t>(samples_.size()); }
  const std::vector<int64_t>& operator[](int64_t sample) const { return samples_[sample].extents; }
  // Returns a hash of all samples' extents in order, never 0.
  uint64_t Hash() const;

 private:
  struct Sample {
    std::string file;  // of the first field
    std::vector<int64_t> extents;
  };

  std::vector<int64_t> block_;
  std::vector<Sample> samples_;
  std::string first_field_;
  std::string field_;  // the one that is added now
  int64_t at_ = 0;     // its samples so far
};

}  // namespace adjoin

#endif  // ADJOIN_WORKER_SAMPLES_SAMPLE_EXTENTS_H_
