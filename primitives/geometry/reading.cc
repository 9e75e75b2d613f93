#include "primitives/geometry/reading.h"

#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace adjoin {
namespace {

template <typename Kind>
absl::StatusOr<int64_t> OutputsOf(const Kind& kind, int64_t n) {
  return kind.OutputSize(n);
}
absl::StatusOr<int64_t> OutputsOf(const Interpolation& interpolation, int64_t n) {
  if (n == interpolation.options().inputs) return interpolation.options().outputs;
  return absl::InvalidArgumentError(absl::StrCat(interpolation.ToString(), " of ", n, " inputs"));
}

template <typename Kind>
Interval ReadsOf(const Kind& kind, Interval outputs, int64_t n) {
  return kind.Reads(outputs, n);
}
Interval ReadsOf(const Window& window, Interval outputs, int64_t) { return window.Reads(outputs); }
Interval ReadsOf(const Interpolation& interpolation, Interval outputs, int64_t) { return interpolation.Reads(outputs); }

template <typename Kind>
Need NeedOf(const Kind& kind, Interval outputs, int64_t n) {
  return kind.Needed(outputs, n);
}
Need NeedOf(const Interpolation& interpolation, Interval outputs, int64_t) {
  return Need::Of(interpolation.Reads(outputs));
}

}  // namespace

absl::StatusOr<int64_t> Reading::OutputSize(int64_t n) const {
  return std::visit([n](const auto& kind) { return OutputsOf(kind, n); }, kind_);
}

Interval Reading::Reads(Interval outputs, int64_t n) const {
  return std::visit([&](const auto& kind) { return ReadsOf(kind, outputs, n); }, kind_);
}

Need Reading::Needed(Interval outputs, int64_t n) const {
  return std::visit([&](const auto& kind) { return NeedOf(kind, outputs, n); }, kind_);
}

std::vector<int64_t> Reading::IndexMap(Interval outputs, int64_t n) const {
  if (const auto* window = As<Window>()) return window->IndexMap(outputs, n);
  if (const auto* selection = As<IndexSelection>()) return selection->IndexMap(outputs, n);
  return {};
}

std::string Reading::ToString() const {
  return std::visit([](const auto& kind) { return kind.ToString(); }, kind_);
}

}  // namespace adjoin
