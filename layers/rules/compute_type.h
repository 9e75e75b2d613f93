// The number types of a job.
#ifndef ADJOIN_LAYERS_RULES_COMPUTE_TYPE_H_
#define ADJOIN_LAYERS_RULES_COMPUTE_TYPE_H_

#include "absl/status/statusor.h"
#include "primitives/geometry/dtype.h"
#include "proto/job.pb.h"

namespace adjoin {

struct NumberTypes {
  DType compute = DType::kFloat32;     // of activations, their gradients and their sums over ranks
  DType parameters = DType::kFloat32;  // and of their gradients, of the optimizer's state and of running statistics
};

// Errors: kInvalidArgument and kUnimplemented, at the field (spec_error.h).
absl::StatusOr<NumberTypes> NumberTypesOf(const JobSpec& spec);

}  // namespace adjoin

#endif  // ADJOIN_LAYERS_RULES_COMPUTE_TYPE_H_
