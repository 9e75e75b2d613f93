// The names of traces among a job's results.
//
//   TraceFileName(41, 45);                  // "trace-41-45.pftrace"
//   IsTraceFile("trace-41-45.pftrace");     // true
#ifndef ADJOIN_BASE_TRACE_FILE_H_
#define ADJOIN_BASE_TRACE_FILE_H_

#include <algorithm>
#include <cstdint>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

namespace adjoin {

// `first` and `last`: steps.
inline std::string TraceFileName(int64_t first, int64_t last) {
  return absl::StrCat("trace-", first, "-", last, ".pftrace");
}

inline bool IsTraceFile(absl::string_view name) {
  if (!absl::ConsumePrefix(&name, "trace-") || !absl::ConsumeSuffix(&name, ".pftrace")) return false;
  const size_t dash = name.find('-');
  const auto is_number = [](absl::string_view text) {
    return !text.empty() && text.size() <= 19 &&
           std::all_of(text.begin(), text.end(), [](unsigned char c) { return absl::ascii_isdigit(c); });
  };
  return dash != absl::string_view::npos && is_number(name.substr(0, dash)) && is_number(name.substr(dash + 1));
}

}  // namespace adjoin

#endif  // ADJOIN_BASE_TRACE_FILE_H_
