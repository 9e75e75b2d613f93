// Names below a job's output_dir: of its results, and those that are not the job's to choose, as attempts have their
// folders (attempt-7) and notes (.epoch) there, which others remove.
//
//   std::string folder = AttemptFolder(7);             // "attempt-7"
//   absl::string_view name = ReservedName("a/attempt-7/b");  // "attempt-7"; "" for "a/b" and "./a"
#ifndef ADJOIN_BASE_OUTPUT_DIR_H_
#define ADJOIN_BASE_OUTPUT_DIR_H_

#include <algorithm>
#include <cstdint>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

namespace adjoin {

inline constexpr char kMetricsFile[] = "metrics.jsonl";
inline constexpr char kModelFile[] = "model.safetensors";

inline constexpr char kAttemptPrefix[] = "attempt-";
inline constexpr char kReservedNames[] =
    "attempt-NUMBER and names that begin with '.' are kept for attempts and their notes";

inline std::string AttemptFolder(uint64_t epoch) { return absl::StrCat(kAttemptPrefix, epoch); }

// Returns true where an attempt's folder or note may have this name, now or in a later release.
inline bool IsReservedName(absl::string_view name) {
  if (!name.empty() && name[0] == '.') return name != ".";
  if (!absl::ConsumePrefix(&name, kAttemptPrefix) || name.empty()) return false;
  return std::all_of(name.begin(), name.end(), [](unsigned char c) { return absl::ascii_isdigit(c); });
}

// Returns the first reserved name among the parts of a path; "" where there is none.
inline absl::string_view ReservedName(absl::string_view path) {
  for (absl::string_view part : absl::StrSplit(path, '/')) {
    if (IsReservedName(part)) return part;
  }
  return "";
}

}  // namespace adjoin

#endif  // ADJOIN_BASE_OUTPUT_DIR_H_
