// The number types of a job.
#ifndef ADJOIN_LAYERS_PLAN_COMPUTE_TYPE_H_
#define ADJOIN_LAYERS_PLAN_COMPUTE_TYPE_H_

#include "absl/status/statusor.h"
#include "primitives/geometry/dtype.h"
#include "proto/job.pb.h"

namespace adjoin {

// Of activations and of parameters; the same for both.
// Errors: kInvalidArgument and kUnimplemented, at the field (spec_error.h).
absl::StatusOr<DType> ComputeType(const JobSpec& spec);

}  // namespace adjoin

#endif  // ADJOIN_LAYERS_PLAN_COMPUTE_TYPE_H_
