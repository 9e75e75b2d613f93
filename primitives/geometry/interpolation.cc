#include "primitives/geometry/interpolation.h"

#include <algorithm>
#include <cmath>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace adjoin {
namespace {

constexpr double kMostOutputs = static_cast<double>(int64_t{1} << 56);

// In the type that LibTorch's kernels compute it in, and not in a wider one: it decides which cells are read.
template <typename Real>
double RatioIn(const Interpolation::Options& o) {
  if (o.align_corners) return o.outputs > 1 ? static_cast<Real>(o.inputs - 1) / static_cast<Real>(o.outputs - 1) : 0;
  if (o.scale > 0) return static_cast<Real>(1.0 / o.scale);
  return static_cast<Real>(o.inputs) / static_cast<Real>(o.outputs);
}

// The weight of a cell at the distance `x`, at most 2: cubic convolution with a = -0.75.
double CubicWeight(double x) {
  constexpr double a = -0.75;
  return x <= 1 ? ((a + 2) * x - (a + 3)) * x * x + 1 : ((a * x - 5 * a) * x + 8 * a) * x - 4 * a;
}

}  // namespace

bool IsNearest(Interpolation::Mode mode) {
  return mode == Interpolation::Mode::kNearest || mode == Interpolation::Mode::kNearestExact;
}

absl::StatusOr<Interpolation::Mode> ParseInterpolationMode(absl::string_view name) {
  if (name == "nearest") return Interpolation::Mode::kNearest;
  if (name == "linear") return Interpolation::Mode::kLinear;
  if (name == "cubic") return Interpolation::Mode::kCubic;
  if (name == "nearest-exact") return Interpolation::Mode::kNearestExact;
  return absl::InvalidArgumentError(
      absl::StrCat("unknown interpolation \"", name, "\"; known are nearest, linear, cubic, nearest-exact"));
}

std::string ToString(Interpolation::Mode mode) {
  switch (mode) {
    case Interpolation::Mode::kNearest: return "nearest";
    case Interpolation::Mode::kLinear: return "linear";
    case Interpolation::Mode::kCubic: return "cubic";
    case Interpolation::Mode::kNearestExact: return "nearest-exact";
  }
  return "";
}

absl::StatusOr<int64_t> Interpolation::OutputSize(int64_t inputs, double scale) {
  // Written so that NaN is refused.
  if (!(scale > 0) || !std::isfinite(scale)) {
    return absl::InvalidArgumentError(absl::StrCat("a scale of ", scale, "; it must be a positive number"));
  }
  const double outputs = std::floor(static_cast<double>(inputs) * scale);
  if (!(outputs >= 1) || outputs > kMostOutputs) {
    return absl::InvalidArgumentError(absl::StrCat("a scale of ", scale, " makes ", outputs, " outputs of ", inputs,
                                                   " inputs; at least 1 and at most 2^56 are possible"));
  }
  return static_cast<int64_t>(outputs);
}

absl::StatusOr<Interpolation> Interpolation::Create(const Options& options) {
  if (options.inputs < 1 || options.outputs < 1) {
    return absl::InvalidArgumentError(absl::StrCat("an interpolation from ", options.inputs, " to ", options.outputs,
                                                   " elements; both must be at least 1"));
  }
  if (options.align_corners && IsNearest(options.mode)) {
    return absl::InvalidArgumentError(
        absl::StrCat("align_corners says nothing for ", adjoin::ToString(options.mode), "; leave it out"));
  }
  if (options.scale != 0) {
    ADJOIN_ASSIGN_OR_RETURN(const int64_t outputs, OutputSize(options.inputs, options.scale));
    if (outputs != options.outputs) {
      return absl::InvalidArgumentError(absl::StrCat("a scale of ", options.scale, " makes ", outputs, " outputs of ",
                                                     options.inputs, " inputs, not ", options.outputs));
    }
  }
  return Interpolation(options, options.dtype == DType::kFloat64 ? RatioIn<double>(options) : RatioIn<float>(options));
}

bool Interpolation::copies() const {
  return options_.inputs == options_.outputs && (options_.mode == Mode::kLinear || ratio_ == 1);
}

int Interpolation::taps() const {
  if (copies()) return 1;
  return IsNearest(options_.mode) ? 1 : options_.mode == Mode::kLinear ? 2 : 4;
}

// Linear and cubic.
double Interpolation::Coordinate(int64_t output) const {
  const double o = static_cast<double>(output);
  if (options_.align_corners) return ratio_ * o;
  const double at = ratio_ * (o + 0.5) - 0.5;
  return options_.mode == Mode::kLinear ? std::max(at, 0.0) : at;
}

// The cells of one output by all definitions. r is in the tensor's type or in float32, and so is the output's number.
// The coordinate is rounded to float32. Nearest-exact may come by way of the coordinate of linear, which subtracts a
// half, in one rounding with the product or in another. Kernels may take equal extents for what they are, whatever the
// scale, and with nearest doubled ones.
Interval Interpolation::NearestCells(int64_t output) const {
  const bool is_exact = options_.mode == Mode::kNearestExact;
  const int64_t last = options_.inputs - 1;
  Interval cells;
  const auto add = [&](int64_t cell) {
    cell = std::min(cell, last);
    cells = cells.Hull({cell, cell + 1});
  };
  const auto add_floor = [&](float at) { add(static_cast<int64_t>(std::floor(at))); };
  const auto add_by = [&](double ratio, double number) {
    const double product = ratio * number;
    const float at = static_cast<float>(product);
    add_floor(at);
    if (!is_exact) return;
    add_floor(std::max(at - 0.5F, 0.0F) + 0.5F);
    add_floor(std::max(static_cast<float>(product - 0.5), 0.0F) + 0.5F);
  };
  const double half = is_exact ? 0.5 : 0;
  for (const double ratio : {ratio_, RatioIn<float>(options_)}) {
    add_by(ratio, static_cast<double>(output) + half);
    add_by(ratio, static_cast<float>(output) + static_cast<float>(half));
  }
  if (options_.outputs == options_.inputs) add(output);
  if (!is_exact && options_.outputs == 2 * options_.inputs) add(output / 2);
  return cells;
}

Interpolation::Tap Interpolation::TapOf(int64_t output, int tap) const {
  if (copies()) return {output, 1};
  const int64_t last = options_.inputs - 1;
  const double at = Coordinate(output);
  switch (options_.mode) {
    case Mode::kNearest:
    case Mode::kNearestExact: break;
    case Mode::kLinear: {
      const int64_t below = std::min(static_cast<int64_t>(at), last);
      const double part = std::min(at - static_cast<double>(below), 1.0);
      return tap == 0 ? Tap{below, 1 - part} : Tap{std::min(below + 1, last), part};
    }
    case Mode::kCubic: {
      const int64_t cell = static_cast<int64_t>(std::floor(at)) + tap - 1;
      return {std::min(std::max(cell, int64_t{0}), last), CubicWeight(std::abs(at - static_cast<double>(cell)))};
    }
  }
  return {};
}

Interval Interpolation::Reads(Interval outputs) const {
  if (outputs.empty()) return {0, 0};
  if (IsNearest(options_.mode) && !copies()) {
    return NearestCells(outputs.lo).Hull(NearestCells(outputs.hi - 1));
  }
  return {TapOf(outputs.lo, 0).index, TapOf(outputs.hi - 1, taps() - 1).index + 1};
}

std::string Interpolation::ToString() const {
  return absl::StrCat(adjoin::ToString(options_.mode), " ", options_.inputs, " to ", options_.outputs,
                      options_.align_corners ? " align_corners" : "",
                      options_.scale > 0 ? absl::StrCat(" scale ", options_.scale) : "");
}

}  // namespace adjoin
