// Checks `predict` of a job. A job of kind PREDICT needs it; no other kind may have it.
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

// Checks that the format can hold a layer's output of `shape`, [batch, ...]. Errors: kInvalidArgument.
absl::Status CheckWrittenShape(const Predict& predict, const std::string& layer, const std::vector<int64_t>& shape);

}  // namespace adjoin

#endif  // ADJOIN_PLANNER_CHECKS_PREDICT_CHECK_H_
