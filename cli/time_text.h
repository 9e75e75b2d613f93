// Times and durations as people write and read them.
//
//   ADJOIN_ASSIGN_OR_RETURN(absl::Time since, ReadSince("10m", absl::Now()));
//   TimeText(event.unix_ms());   // "2026-11-20 14:00:00"
#ifndef ADJOIN_CLI_TIME_TEXT_H_
#define ADJOIN_CLI_TIME_TEXT_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace adjoin {

// "90s", "10m", "2h", "1h30m", "7d"; more than nothing. Errors: kInvalidArgument.
absl::StatusOr<absl::Duration> ReadDuration(const std::string& text);

// A time ago ("10m"), or a time: "2026-11-20T14:00:00" (this machine's zone), with or without seconds or 'T', a date
// alone, or with a zone, "2026-11-20T14:00:00Z" and "...+01:00". Errors: kInvalidArgument.
absl::StatusOr<absl::Time> ReadSince(const std::string& text, absl::Time now);

// In this machine's zone; "-" for 0.
std::string TimeText(int64_t unix_ms);

}  // namespace adjoin

#endif  // ADJOIN_CLI_TIME_TEXT_H_
