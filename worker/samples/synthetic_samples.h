// Values made from the seed. Each depends on its position in the data set only, so that every rank can make every
// value.
//
//   ADJOIN_ASSIGN_OR_RETURN(auto samples, SyntheticSamples::Create("train", field, {1, 28, 28}, /*seed=*/7));
//   ADJOIN_RETURN_IF_ERROR(samples->Read(/*sample=*/5, /*count=*/1, box, cells));
//
// "normal": mean 0, standard deviation 1 (Box and Muller). "uniform" in [low, high). "index": whole numbers in [low,
// high). "constant": low. A value is a function of the seed, the names of data set and field, the number of the sample,
// and the position in the whole sample. One thread.
#ifndef ADJOIN_WORKER_SAMPLES_SYNTHETIC_SAMPLES_H_
#define ADJOIN_WORKER_SAMPLES_SYNTHETIC_SAMPLES_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "primitives/geometry/box.h"
#include "primitives/random/philox.h"
#include "proto/job.pb.h"
#include "worker/samples/field_source.h"

namespace adjoin {

class SyntheticSamples : public FieldSource {
 public:
  // Errors: kInvalidArgument (an unknown kind).
  static absl::StatusOr<std::unique_ptr<FieldSource>> Create(const std::string& dataset, const Field& field,
                                                             const std::vector<int64_t>& sample_shape, uint64_t seed);

  int64_t samples() const override { return spec_.samples(); }
  const std::vector<int64_t>& ShapeOf(int64_t /*sample*/) const override { return sample_shape_; }
  std::string NameOf(int64_t sample) const override { return "synthetic sample " + std::to_string(sample); }
  absl::Status Read(int64_t sample, int64_t count, const Box& box, double* out) override;
  int64_t bytes_read() const override { return 0; }

 private:
  enum class Kind { kNormal, kUniform, kIndex, kConstant };

  SyntheticSamples(const Synthetic& spec, Kind kind, const std::vector<int64_t>& sample_shape, RandomStream stream)
      : spec_(spec), kind_(kind), sample_shape_(sample_shape), stream_(stream) {}
  double ValueAt(uint64_t index) const;

  const Synthetic spec_;
  const Kind kind_;
  const std::vector<int64_t> sample_shape_;
  const RandomStream stream_;
};

}  // namespace adjoin

#endif  // ADJOIN_WORKER_SAMPLES_SYNTHETIC_SAMPLES_H_
