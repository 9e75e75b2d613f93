#include "cli/time_text.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace adjoin {

absl::StatusOr<absl::Duration> ReadDuration(const std::string& text) {
  absl::Duration duration;
  double days = 0;
  bool read = false;
  if (!text.empty() && text.back() == 'd') {
    read = absl::SimpleAtod(text.substr(0, text.size() - 1), &days);
    duration = absl::Hours(24) * days;
  } else {
    read = absl::ParseDuration(text, &duration);
  }
  if (read && duration > absl::ZeroDuration() && duration < absl::InfiniteDuration()) return duration;
  return absl::InvalidArgumentError(absl::StrCat("'", text, "' is not a duration such as 90s, 10m, 2h or 7d"));
}

absl::StatusOr<absl::Time> ReadSince(const std::string& text, absl::Time now) {
  absl::StatusOr<absl::Duration> ago = ReadDuration(text);
  if (ago.ok()) return now - *ago;
  absl::Time time;
  std::string ignored;
  if (absl::ParseTime(absl::RFC3339_full, text, &time, &ignored)) return time;
  for (const char* format :
       {"%Y-%m-%dT%H:%M:%E*S", "%Y-%m-%d %H:%M:%E*S", "%Y-%m-%dT%H:%M", "%Y-%m-%d %H:%M", "%Y-%m-%d"}) {
    if (absl::ParseTime(format, text, absl::LocalTimeZone(), &time, &ignored)) return time;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("'", text, "' is neither a time ago such as 10m or 7d nor a time such as 2026-11-20T14:00:00"));
}

std::string TimeText(int64_t unix_ms) {
  return unix_ms == 0 ? "-"
                      : absl::FormatTime("%Y-%m-%d %H:%M:%S", absl::FromUnixMillis(unix_ms), absl::LocalTimeZone());
}

}  // namespace adjoin
