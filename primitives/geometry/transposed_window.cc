#include "primitives/geometry/transposed_window.h"

#include <algorithm>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "primitives/geometry/integer_division.h"

namespace adjoin {
namespace {

// Keeps dilation times kernel within 64 bits.
constexpr int64_t kMaxTransposedParameter = int64_t{1} << 31;
// Keeps extent times stride within 64 bits.
constexpr int64_t kMaxExtent = int64_t{1} << 31;

}  // namespace

absl::StatusOr<TransposedWindow> TransposedWindow::Create(const Options& options) {
  const struct {
    const char* name;
    int64_t value;
    int64_t least;
  } checks[] = {{"kernel", options.kernel, 1},     {"stride", options.stride, 1},
                {"dilation", options.dilation, 1}, {"pad_lo", options.pad_lo, 0},
                {"pad_hi", options.pad_hi, 0},     {"output_padding", options.output_padding, 0}};
  for (const auto& check : checks) {
    if (check.value < check.least || check.value > kMaxTransposedParameter) {
      return absl::InvalidArgumentError(absl::StrCat(check.name, " of a transposed window is ", check.value,
                                                     "; it must be from ", check.least, " to ",
                                                     kMaxTransposedParameter));
    }
  }
  if (options.output_padding >= std::max(options.stride, options.dilation)) {
    return absl::InvalidArgumentError(absl::StrCat("output_padding ", options.output_padding,
                                                   " must be smaller than the stride, ", options.stride,
                                                   ", or the dilation, ", options.dilation));
  }
  return TransposedWindow(options);
}

absl::StatusOr<int64_t> TransposedWindow::OutputSize(int64_t n) const {
  const Options& o = options_;
  if (n < 1 || n > kMaxExtent) {
    return absl::InvalidArgumentError(
        absl::StrCat("a transposed window over an extent of ", n, "; from 1 to ", kMaxExtent, " is possible"));
  }
  const int64_t outputs = (n - 1) * o.stride - o.pad_lo - o.pad_hi + o.dilation * (o.kernel - 1) + o.output_padding + 1;
  if (outputs < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("a ", ToString(), " window leaves no output of an input of ", n, "; its padding is too large"));
  }
  return outputs;
}

Interval TransposedWindow::Reads(Interval outputs, int64_t n) const {
  if (outputs.empty()) return {0, 0};
  const Options& o = options_;
  const int64_t lo = CeilDiv(outputs.lo + o.pad_lo - o.dilation * (o.kernel - 1), o.stride);
  const int64_t hi = FloorDiv(outputs.hi - 1 + o.pad_lo, o.stride) + 1;
  const Interval reads = Interval{lo, hi}.Intersect({0, n});
  return reads.empty() ? Interval{0, 0} : reads;
}

Interval TransposedWindow::Writes(Interval inputs) const {
  if (inputs.empty()) return {0, 0};
  const Options& o = options_;
  return {inputs.lo * o.stride - o.pad_lo, (inputs.hi - 1) * o.stride - o.pad_lo + o.dilation * (o.kernel - 1) + 1};
}

std::string TransposedWindow::ToString() const {
  const Options& o = options_;
  return absl::StrCat("transposed kernel ", o.kernel, " stride ", o.stride, " dilation ", o.dilation, " padding ",
                      o.pad_lo, ",", o.pad_hi, " output_padding ", o.output_padding);
}

}  // namespace adjoin
