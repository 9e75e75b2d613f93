#include "primitives/geometry/adaptive_window.h"

#include <string>

#include "absl/numeric/int128.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace adjoin {

absl::StatusOr<AdaptiveWindow> AdaptiveWindow::Create(int64_t outputs) {
  if (outputs < 1) {
    return absl::InvalidArgumentError(absl::StrCat("an adaptive window of ", outputs, " outputs; it needs at least 1"));
  }
  return AdaptiveWindow(outputs);
}

absl::StatusOr<int64_t> AdaptiveWindow::OutputSize(int64_t n) const {
  if (n < 1) return absl::InvalidArgumentError(absl::StrCat("an adaptive window over an extent of ", n));
  return outputs_;
}

Interval AdaptiveWindow::Reads(Interval outputs, int64_t n) const {
  if (outputs.empty()) return {0, 0};
  const absl::int128 lo = absl::int128(outputs.lo) * n / outputs_;
  const absl::int128 hi = (absl::int128(outputs.hi) * n + outputs_ - 1) / outputs_;
  return {static_cast<int64_t>(lo), static_cast<int64_t>(hi)};
}

std::string AdaptiveWindow::ToString() const { return absl::StrCat("adaptive ", outputs_); }

}  // namespace adjoin
