// Layers pad and crop: torch.nn.functional.pad with zeros, and its opposite, over any dims, cut in any dim.
//
// Both are windows of one element with a padding, negative where elements are left out. The output is cut as the input,
// in the dims that change evenly unless y says otherwise.
// The rule of the kinds "crop" and "pad".
#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "layers/rules/layer_rule.h"
#include "layers/rules/layout_like.h"
#include "layers/rules/rule_checks.h"
#include "layers/rules/spec_error.h"
#include "primitives/geometry/layout.h"
#include "primitives/geometry/reading.h"
#include "primitives/geometry/window.h"

namespace adjoin {
namespace {

constexpr int64_t kMost = int64_t{1} << 31;

// Dim `dim` of extent n, with `lo` and `hi` elements more (less, where negative) at its two ends.
absl::StatusOr<Window> OneDim(int dim, int64_t n, int64_t lo, int64_t hi) {
  if (std::max({lo, hi, -lo, -hi}) > kMost) {
    return InvalidSpec("the change by ", lo, " and ", hi, " elements of dim ", dim, " is too large; at most 2^31");
  }
  if (-lo > n || -hi > n || n + lo + hi < 1) {
    return InvalidSpec("dim ", dim, " has ", n, " elements; after a change by ", lo, " at its start and ", hi,
                       " at its end nothing would be left, or more be taken away than there is");
  }
  Window::Options options;
  options.pad_lo = lo;
  options.pad_hi = hi;
  return Window::Create(options);
}

// By tensor dim: those that change.
absl::StatusOr<std::map<int, Window>> WindowsOf(const Shape& spec, int64_t sign, const std::vector<int64_t>& input) {
  if (spec.arg().empty() || spec.arg_size() % 2 != 0 || spec.arg_size() > 2 * static_cast<int>(input.size())) {
    return AtField("arg", InvalidSpec("arg has ", spec.arg_size(), " values; write a pair for each dim, the last one's",
                                      " first, of at most ", input.size(), " dims: arg: [1, 1] for the last one, say"));
  }
  std::map<int, Window> windows;
  for (int pair = 0; pair < spec.arg_size() / 2; ++pair) {
    const int64_t first = spec.arg(2 * pair), second = spec.arg(2 * pair + 1);
    if (first == 0 && second == 0) continue;
    const int dim = static_cast<int>(input.size()) - 1 - pair;
    // The smallest number has no opposite.
    const int64_t lo = sign * std::max(first, -2 * kMost), hi = sign * std::max(second, -2 * kMost);
    auto window = OneDim(dim, input[dim], lo, hi);
    if (!window.ok()) return AtField("arg", window.status());
    windows.emplace(dim, *window);
  }
  return windows;
}

}  // namespace

absl::StatusOr<LayerOutcome> CropPadRule(const LayerRequest& request) {
  ADJOIN_RETURN_IF_ERROR(CheckOneFloatInput(request));
  ADJOIN_RETURN_IF_ERROR(CheckNoParameters(request.spec));
  const Layout& x = request.input[0];
  const bool crop = request.spec.has_crop();
  const char* field = crop ? "crop" : "pad";
  auto windows = WindowsOf(crop ? request.spec.crop() : request.spec.pad(), crop ? -1 : 1, x.shape());
  if (!windows.ok()) return AtField(field, windows.status());

  InputNeed need;
  std::vector<int64_t> shape = x.shape();
  std::set<int> changed;
  for (const auto& [dim, window] : *windows) {
    ADJOIN_ASSIGN_OR_RETURN(shape[dim], window.OutputSize(x.shape()[dim]));
    changed.insert(dim);
    need.readings.emplace(dim, window);
  }
  auto volume = CheckedVolume(shape);
  if (!volume.ok()) return AtField(field, volume.status());
  ADJOIN_ASSIGN_OR_RETURN(Layout even, LayoutLike(x, shape, changed));
  ADJOIN_ASSIGN_OR_RETURN(Layout output, OutputLayout(request, shape, even));
  Layout compute = SameButFor(changed, even, output) ? output : std::move(even);
  return LayerOutcome{
      .spec = request.spec, .input = {std::move(need)}, .compute = std::move(compute), .output = std::move(output)};
}

}  // namespace adjoin
