// Refuses a table of rates that nothing can be predicted from: tables come from files and from other machines.
#ifndef ADJOIN_PLANNER_TIME_RATE_CHECK_H_
#define ADJOIN_PLANNER_TIME_RATE_CHECK_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/rates.pb.h"

namespace adjoin {

// The most that a table may have, so that a daemon cannot fill the coordinator's memory.
inline constexpr int kMostKernelRates = 4096;
inline constexpr int kMostLaneRates = 16;
inline constexpr int kMostRateSizes = 16;
inline constexpr int kMostRateText = 200;

// Errors: kInvalidArgument names the entry and says what it may be.
absl::Status CheckRates(const RateTable& rates);

// A table in protobuf's text format. `name`: of the file, for messages. Errors: kInvalidArgument with line and column;
// as CheckRates.
absl::StatusOr<RateTable> ParseRates(const std::string& text, const std::string& name);

// One entry a line, so that two tables can be compared.
std::string RatesText(const RateTable& rates);

}  // namespace adjoin

#endif  // ADJOIN_PLANNER_TIME_RATE_CHECK_H_
