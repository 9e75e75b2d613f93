// What a job says of prediction: `predict`, which a job of kind PREDICT needs, and no other has.
#ifndef ADJOIN_PLANNER_CHECKS_PREDICT_CHECK_H_
#define ADJOIN_PLANNER_CHECKS_PREDICT_CHECK_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "proto/job.pb.h"

namespace adjoin {

// Errors: kInvalidArgument and kUnimplemented, at the field (spec_error.h).
absl::Status CheckPredict(const JobSpec& spec);

// Whether the format holds what a layer returns, of `shape`: [batch, ...]. Errors: kInvalidArgument.
absl::Status CheckWrittenShape(const Predict& predict, const std::string& layer, const std::vector<int64_t>& shape);

}  // namespace adjoin

#endif  // ADJOIN_PLANNER_CHECKS_PREDICT_CHECK_H_
