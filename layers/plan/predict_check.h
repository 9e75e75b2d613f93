// What a job says of prediction: `predict`, which a job of kind PREDICT needs, and no other has.
#ifndef ADJOIN_LAYERS_PLAN_PREDICT_CHECK_H_
#define ADJOIN_LAYERS_PLAN_PREDICT_CHECK_H_

#include "absl/status/status.h"
#include "proto/job.pb.h"

namespace adjoin {

// Errors: kInvalidArgument and kUnimplemented, at the field (spec_error.h).
absl::Status CheckPredict(const JobSpec& spec);

}  // namespace adjoin

#endif  // ADJOIN_LAYERS_PLAN_PREDICT_CHECK_H_
