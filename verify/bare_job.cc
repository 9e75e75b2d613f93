#include "verify/bare_job.h"

#include <cstdint>
#include <vector>

#include "planner/spec/sample_shape.h"

namespace adjoin {

JobSpec BareJob(const JobSpec& spec) {
  JobSpec job;
  job.set_name(spec.name());
  job.set_ranks(spec.ranks());
  *job.mutable_rank_weight() = spec.rank_weight();
  job.set_seed(spec.seed());
  *job.mutable_layer() = spec.layer();
  job.mutable_precision()->set_compute("float64");
  for (const Dataset& dataset : spec.dataset()) {
    Dataset* small = job.add_dataset();
    small->set_name(dataset.name());
    *small->mutable_field() = dataset.field();
    for (Field& field : *small->mutable_field()) {
      if (field.dtype() != "int64") field.clear_dtype();
      field.clear_normalize();
      field.clear_clip_percentile();
      const std::vector<int64_t> shape = SampleShape(dataset, field);
      field.mutable_shape()->Assign(shape.begin(), shape.end());
    }
  }
  return job;
}

}  // namespace adjoin
