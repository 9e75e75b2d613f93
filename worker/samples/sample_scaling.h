// Field.normalize and Field.clip_percentile: each sample's values clipped and normalised by the whole sample's own.
//
//   SampleScaling scaling(dataset, field, source);
//   if (scaling.any()) ADJOIN_RETURN_IF_ERROR(scaling.Apply(/*sample=*/3, /*count=*/1, slab, stop, cells));
//
// A sample is gone through as a whole when a part of it is first needed, by every rank that reads a part: so all have
// the same bits. What was found of up to 262,144 samples is kept. One thread.
#ifndef ADJOIN_WORKER_SAMPLES_SAMPLE_SCALING_H_
#define ADJOIN_WORKER_SAMPLES_SAMPLE_SCALING_H_

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "primitives/geometry/box.h"
#include "proto/job.pb.h"
#include "worker/samples/field_source.h"

namespace adjoin {

// value -> (Clipped(value) - mean) / std.
struct ChannelScaling {
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
  double mean = 0;
  double std = 1;

  double Clipped(double value) const { return std::min(std::max(value, low), high); }
};

class SampleScaling {
 public:
  // `source`, the field's, must outlive this.
  SampleScaling(const Dataset& dataset, const Field& field, FieldSource* source);

  // False where the field asks for neither.
  bool any() const { return zscore_ || !percentages_.empty(); }
  // Changes the cells of `count` samples' boxes, row-major, from `sample` on.
  // Errors: kInvalidArgument (a value that is not finite, or too large to be squared, anywhere in the sample: names
  // file and position); kCancelled once `stop` is set; as FieldSource::Read.
  absl::Status Apply(int64_t sample, int64_t count, const Box& box, const std::atomic<bool>& stop, double* cells);

  // Returns that of each channel of a sample; valid until the next call.
  absl::StatusOr<const std::vector<ChannelScaling>*> Of(int64_t sample, const std::atomic<bool>& stop);

 private:
  // Takes some values of a channel.
  using ChannelValues = std::function<void(int64_t channel, const double* values, int64_t count)>;
  // Gives the values of the channels in `group`, a box of the sample. `held`: all of the sample's, unless it is empty.
  absl::Status ForEachValue(int64_t sample, const Box& group, const std::vector<double>& held,
                            const std::atomic<bool>& stop, const ChannelValues& f) const;
  absl::Status FindLimits(int64_t sample, const Box& group, const std::vector<double>& held,
                          const std::atomic<bool>& stop, std::vector<ChannelScaling>& scalings) const;
  absl::Status FindMoments(int64_t sample, const Box& group, const std::vector<double>& held,
                           const std::atomic<bool>& stop, std::vector<ChannelScaling>& scalings) const;
  absl::Status CheckFound(int64_t sample, const ChannelScaling& scaling) const;

  const bool zscore_;
  const std::vector<double> percentages_;
  const bool channels_;  // the sample's dim 0 counts channels
  FieldSource* const source_;
  std::map<int64_t, std::vector<ChannelScaling>> found_;  // by sample
};

}  // namespace adjoin

#endif  // ADJOIN_WORKER_SAMPLES_SAMPLE_SCALING_H_
