#include "primitives/geometry/window.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "primitives/geometry/integer_division.h"

namespace adjoin {
namespace {

// Keeps dilation times kernel within 64 bits.
constexpr int64_t kMaxParameter = int64_t{1} << 31;

// Where the index `i`, possibly outside [0, n), has its value. n is at least 1.
int64_t ImageOf(int64_t i, int64_t n, Boundary boundary) {
  if (boundary == Boundary::kReplicate) return std::min(std::max(i, int64_t{0}), n - 1);
  if (n == 1) return 0;
  const int64_t phase = FloorMod(i, 2 * (n - 1));
  return phase < n ? phase : 2 * (n - 1) - phase;
}

Need ZerosNeed(Interval reads, int64_t n) {
  Need need{reads.size(), reads.size(), {}};
  const Interval inside = reads.Intersect({0, n});
  if (!inside.empty()) need.segments.push_back({inside, inside.lo - reads.lo});
  return need;
}

Need CircularNeed(Interval reads, int64_t n) {
  Need need{reads.size(), reads.size(), {}};
  for (int64_t i = reads.lo; i < reads.hi;) {
    const int64_t source = FloorMod(i, n);
    const int64_t length = std::min(reads.hi - i, n - source);
    need.segments.push_back({{source, source + length}, i - reads.lo});
    i += length;
  }
  return need;
}

// Reflect and replicate: the images of a run of indices are a run themselves, fetched once.
Interval ImagesOf(Interval reads, int64_t n, Boundary boundary) {
  if (boundary == Boundary::kReplicate) {
    return {ImageOf(reads.lo, n, boundary), ImageOf(reads.hi - 1, n, boundary) + 1};
  }
  // Beyond the first reflection on either side all cells are read.
  if (reads.lo <= -n || reads.hi >= 2 * n) return {0, n};
  Interval images = reads.Intersect({0, n});
  for (const Interval& outside : {reads.Intersect({-n, 0}), reads.Intersect({n, 2 * n})}) {
    if (outside.empty()) continue;
    const int64_t a = ImageOf(outside.lo, n, boundary), b = ImageOf(outside.hi - 1, n, boundary);
    images = images.Hull({std::min(a, b), std::max(a, b) + 1});
  }
  return images;
}

Need ImageNeed(Interval reads, int64_t n, Boundary boundary) {
  const Interval images = ImagesOf(reads, n, boundary);
  return {reads.size(), images.size(), {{images, 0}}};
}

int64_t LargestPadding(int64_t n, Boundary boundary) {
  switch (boundary) {
    case Boundary::kZeros: return kMaxParameter;
    case Boundary::kCircular: return n;
    case Boundary::kReflect: return std::max(n - 1, int64_t{0});
    case Boundary::kReplicate: return n > 0 ? kMaxParameter : 0;
  }
  return 0;
}

}  // namespace

absl::StatusOr<Boundary> ParseBoundary(absl::string_view name) {
  if (name.empty() || name == "zeros") return Boundary::kZeros;
  if (name == "circular") return Boundary::kCircular;
  if (name == "reflect") return Boundary::kReflect;
  if (name == "replicate") return Boundary::kReplicate;
  return absl::InvalidArgumentError(
      absl::StrCat("unknown boundary \"", name, "\"; known are zeros, circular, reflect, replicate"));
}

std::string ToString(Boundary boundary) {
  switch (boundary) {
    case Boundary::kZeros: return "zeros";
    case Boundary::kCircular: return "circular";
    case Boundary::kReflect: return "reflect";
    case Boundary::kReplicate: return "replicate";
  }
  return "";
}

absl::StatusOr<Window> Window::Create(const Options& options) {
  const int64_t least_padding = options.boundary == Boundary::kZeros ? -kMaxParameter : 0;
  const struct {
    const char* name;
    int64_t value;
    int64_t least;
  } checks[] = {{"kernel", options.kernel, 1},
                {"stride", options.stride, 1},
                {"dilation", options.dilation, 1},
                {"pad_lo", options.pad_lo, least_padding},
                {"pad_hi", options.pad_hi, least_padding}};
  for (const auto& check : checks) {
    if (check.value < check.least || check.value > kMaxParameter) {
      return absl::InvalidArgumentError(absl::StrCat(check.name, " of a window is ", check.value, "; it must be from ",
                                                     check.least, " to ", kMaxParameter));
    }
  }
  if (options.ceil_mode && options.boundary != Boundary::kZeros) {
    return absl::InvalidArgumentError(absl::StrCat("ceil_mode reads past the padding, where the boundary ",
                                                   adjoin::ToString(options.boundary),
                                                   " says nothing; it goes with zeros only"));
  }
  return Window(options);
}

absl::StatusOr<int64_t> Window::OutputSize(int64_t n) const {
  const Options& o = options_;
  if (n < 0) return absl::InvalidArgumentError(absl::StrCat("a window over the negative extent ", n));
  const int64_t pad = std::max(o.pad_lo, o.pad_hi);
  const int64_t most = LargestPadding(n, o.boundary);
  if (pad > most) {
    return absl::InvalidArgumentError(absl::StrCat("padding ", pad, " is too large for an input of ", n,
                                                   " with boundary ", adjoin::ToString(o.boundary), "; at most ", most,
                                                   " is possible"));
  }
  const int64_t room = n + o.pad_lo + o.pad_hi - o.dilation * (o.kernel - 1) - 1;
  int64_t outputs = FloorDiv(o.ceil_mode ? room + o.stride - 1 : room, o.stride) + 1;
  // A window that would start beyond the input and its left padding is dropped.
  if (o.ceil_mode && (outputs - 1) * o.stride >= n + o.pad_lo) --outputs;
  if (outputs < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("a window with ", ToString(), " is larger than the padded input of ", n + o.pad_lo + o.pad_hi));
  }
  return outputs;
}

Interval Window::Reads(Interval outputs) const {
  if (outputs.empty()) return {0, 0};
  const Options& o = options_;
  return {outputs.lo * o.stride - o.pad_lo, (outputs.hi - 1) * o.stride - o.pad_lo + o.dilation * (o.kernel - 1) + 1};
}

Need Window::Needed(Interval outputs, int64_t n) const {
  const Interval reads = Reads(outputs);
  const bool inside = reads.lo >= 0 && reads.hi <= n;
  // Without input there is nothing to wrap around or to mirror.
  if (inside || n == 0 || options_.boundary == Boundary::kZeros) return ZerosNeed(reads, n);
  if (options_.boundary == Boundary::kCircular) return CircularNeed(reads, n);
  return ImageNeed(reads, n, options_.boundary);
}

std::vector<int64_t> Window::IndexMap(Interval outputs, int64_t n) const {
  const Interval reads = Reads(outputs);
  if ((reads.lo >= 0 && reads.hi <= n) || n == 0) return {};
  if (options_.boundary != Boundary::kReflect && options_.boundary != Boundary::kReplicate) return {};
  const Interval images = ImagesOf(reads, n, options_.boundary);
  std::vector<int64_t> map;
  map.reserve(reads.size());
  for (int64_t i = reads.lo; i < reads.hi; ++i) map.push_back(ImageOf(i, n, options_.boundary) - images.lo);
  return map;
}

std::string Window::ToString() const {
  const Options& o = options_;
  return absl::StrCat("kernel ", o.kernel, " stride ", o.stride, " dilation ", o.dilation, " padding ", o.pad_lo, ",",
                      o.pad_hi, " ", adjoin::ToString(o.boundary), o.ceil_mode ? " ceil_mode" : "");
}

}  // namespace adjoin
