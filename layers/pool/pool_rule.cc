// Pooling over 1, 2 or 3 spatial dims (torch.nn.MaxPool, AvgPool, LPPool, AdaptiveMaxPool and AdaptiveAvgPool), cut in
// any dim, the channels included.
//
// Each rank fetches what its outputs read; the padding is minus infinity for the maximum, else 0. The output is cut in
// batch and channels as the input, in the spatial dims evenly unless y says otherwise. A dim that adaptive_size pools
// to one element is then whole on all ranks that shared it: each pools its own part, and the results are added up or
// compared.
#include "layers/pool/pool_rule.h"

#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "layers/pool/pool_roles.h"
#include "layers/rules/layer_rule.h"
#include "layers/rules/layout_like.h"
#include "layers/rules/rule_checks.h"
#include "layers/rules/spec_error.h"
#include "layers/rules/windowed.h"
#include "primitives/geometry/layout.h"
#include "primitives/geometry/reading.h"

namespace adjoin {
namespace {

// A field that says nothing for the mode.
absl::Status Misplaced(const char* field, const char* use) {
  return AtField(field, InvalidSpec("pool.", field, " is for ", use, "; leave it out"));
}

absl::Status CheckAdaptive(const Pool& pool) {
  const char* why = "a window; with adaptive_size the input's extent makes it";
  if (pool.mode() == "lp") return Misplaced("adaptive_size", "\"max\" and \"avg\"");
  if (pool.has_window()) return Misplaced("window", why);
  if (pool.ceil_mode()) return Misplaced("ceil_mode", why);
  if (pool.has_count_include_pad()) return Misplaced("count_include_pad", why);
  if (pool.has_divisor_override()) return Misplaced("divisor_override", why);
  return absl::OkStatus();
}

// What LibTorch's pooling of this mode has: dilation for the maximum, no padding for the norm.
absl::Status CheckWindow(const Pool& pool) {
  const WindowSpec& window = pool.window();
  for (int i = 0; i < window.dilation_size(); ++i) {
    if (pool.mode() == "max" || window.dilation(i) == 1) continue;
    return AtField("dilation", InvalidSpec("dilation ", window.dilation(i), " is for mode \"max\"; leave it out"));
  }
  if (!window.boundary().empty() && window.boundary() != "zeros") {
    return AtField("boundary", InvalidSpec("boundary \"", window.boundary(),
                                           "\" is for convolutions; what lies outside the input never is the largest,"
                                           " and counts as 0 in an average: leave it out"));
  }
  for (const auto* padding : {&window.pad_lo(), &window.pad_hi()}) {
    for (int32_t pad : *padding) {
      if (pool.mode() != "lp" || pad == 0) continue;
      return AtField(padding == &window.pad_lo() ? "pad_lo" : "pad_hi",
                     InvalidSpec("padding ", pad, " is not for mode \"lp\"; put a pad layer before this one"));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckFields(const Pool& pool) {
  const bool max = pool.mode() == "max", avg = pool.mode() == "avg", lp = pool.mode() == "lp";
  if (!max && !avg && !lp) {
    return AtField("mode",
                   InvalidSpec("pool.mode \"", pool.mode(), "\" is not known; write \"max\", \"avg\" or \"lp\""));
  }
  if (pool.return_indices() && !max) return Misplaced("return_indices", "mode \"max\"");
  if (pool.has_count_include_pad() && !avg) return Misplaced("count_include_pad", "mode \"avg\"");
  if (pool.has_divisor_override() && !avg) return Misplaced("divisor_override", "mode \"avg\"");
  if (pool.has_divisor_override() && pool.divisor_override() == 0) {
    return AtField("divisor_override", InvalidSpec("pool.divisor_override is 0; nothing can be divided by it"));
  }
  if (pool.lp() != 0 && !lp) return Misplaced("lp", "mode \"lp\"");
  if (lp && !(std::isfinite(pool.lp()) && pool.lp() > 0)) {
    return AtField("lp", InvalidSpec("pool.lp, the norm's exponent, is ", pool.lp(),
                                     "; it must be a finite number above 0, as in lp: 2"));
  }
  return pool.adaptive_size_size() > 0 ? CheckAdaptive(pool) : AtField("window", CheckWindow(pool));
}

// What the outputs read, before it is said where they lie.
struct PoolDims {
  std::map<int, Reading> readings;  // by tensor dim, from 2
  std::vector<int64_t> outputs;     // per spatial dim
  double per_output = 1;            // inputs
  Pool filled;
};

absl::StatusOr<PoolDims> WindowDims(const Pool& pool, const std::vector<int64_t>& input) {
  auto dims = WindowsOf(pool.window(), input, /*pooling=*/true, pool.ceil_mode());
  if (!dims.ok()) return AtField("window", dims.status());
  PoolDims result{dims->windows, dims->outputs, 1, pool};
  *result.filled.mutable_window() = dims->filled;
  for (uint32_t kernel : dims->filled.kernel()) result.per_output *= kernel;
  if (pool.mode() == "avg" && !pool.has_divisor_override() && !pool.has_count_include_pad()) {
    result.filled.set_count_include_pad(true);
  }
  return result;
}

absl::StatusOr<PoolDims> AdaptiveDims(const Pool& pool, const std::vector<int64_t>& input) {
  if (input.size() < 3 || input.size() > 5) {
    return InvalidSpec("it reads [batch, channel, 1 to 3 spatial dims]; its input, ", ShapeText(input), ", has ",
                       input.size(), " dims");
  }
  const int spatial = static_cast<int>(input.size()) - 2;
  if (pool.adaptive_size_size() != 1 && pool.adaptive_size_size() != spatial) {
    return AtField("adaptive_size",
                   InvalidSpec("pool.adaptive_size has ", pool.adaptive_size_size(),
                               " values; write one, or one for each of the ", spatial, " spatial dims"));
  }
  PoolDims result;
  result.filled = pool;
  result.filled.clear_adaptive_size();
  for (int i = 0; i < spatial; ++i) {
    const int64_t extent = input[i + 2], size = pool.adaptive_size(pool.adaptive_size_size() == 1 ? 0 : i);
    if (extent < 1) return InvalidSpec("its input, ", ShapeText(input), ", has no elements to pool");
    if (size < 1 && size != -1) {
      return AtField("adaptive_size", InvalidSpec("pool.adaptive_size is ", size,
                                                  "; it must be at least 1, or -1 for the input's extent"));
    }
    const int64_t outputs = size == -1 ? extent : size;
    ADJOIN_ASSIGN_OR_RETURN(const AdaptiveWindow window, AdaptiveWindow::Create(outputs));
    result.readings.emplace(i + 2, window);
    result.outputs.push_back(outputs);
    result.filled.add_adaptive_size(outputs);
    result.per_output *= std::ceil(static_cast<double>(extent) / static_cast<double>(outputs));
  }
  return result;
}

struct PoolLayouts {
  Layout reader;
  Layout compute;
  Layout output;
  std::vector<MovementNeed> movement = {};
};

std::set<int> KeysOf(const std::map<int, Reading>& readings) {
  std::set<int> dims;
  for (const auto& entry : readings) dims.insert(entry.first);
  return dims;
}

Layout::Cuts CutsOf(const Layout& layout) {
  Layout::Cuts cuts;
  for (int dim = 0; dim < layout.dims(); ++dim) {
    if (!layout.AxesOf(dim).empty()) cuts[dim] = PartSizes(layout, dim);
  }
  return cuts;
}

// The largest elements of each part of the dims `to_one` and their places, from one element per part that is not empty,
// where the part is, to all of them on each rank, as `whole` lies.
absl::StatusOr<std::vector<MovementNeed>> Candidates(const Layout& x, const std::set<int>& to_one, const Layout& whole,
                                                     bool constant) {
  std::vector<int64_t> shape = whole.shape();
  Layout::Cuts cuts = CutsOf(whole);
  for (int dim : to_one) {
    shape[dim] = 0;
    for (int64_t size : PartSizes(x, dim)) {
      cuts[dim].push_back(size > 0 ? 1 : 0);
      shape[dim] += cuts[dim].back();
    }
  }
  ADJOIN_ASSIGN_OR_RETURN(const Layout apart, Layout::Create(shape, x.dtype(), x.mesh(), x.placements(), cuts));
  ADJOIN_ASSIGN_OR_RETURN(const Layout together,
                          Layout::Create(shape, x.dtype(), x.mesh(), whole.placements(), CutsOf(whole)));
  return std::vector<MovementNeed>{{.role = kRoleLargest, .from = apart, .to = together, .constant = constant},
                                   {.role = kRolePositions,
                                    .from = apart.WithDType(DType::kInt64),
                                    .to = together.WithDType(DType::kInt64),
                                    .constant = true}};
}

// Layouts for an output of `shape`. The dims of `to_one`, cut in the input, have one output each, whole on all ranks
// that share the dim. Nothing is fetched for them: each rank pools its own part, and these are added up or compared.
absl::StatusOr<PoolLayouts> LayoutsOf(const LayerRequest& request, const std::set<int>& read,
                                      const std::set<int>& to_one, const std::vector<int64_t>& shape) {
  const Layout& x = request.input[0];
  const Pool& pool = request.spec.pool();
  ADJOIN_ASSIGN_OR_RETURN(const Layout like, LayoutLike(x, shape, read, to_one));
  const Layout natural = pool.return_indices() ? like.WithDType(DType::kInt64) : like;
  ADJOIN_ASSIGN_OR_RETURN(Layout output, OutputLayout(request, shape, natural));
  const Layout whole = SameButFor(read, natural, output) ? output : natural;
  if (to_one.empty()) return PoolLayouts{whole.WithDType(x.dtype()), whole, std::move(output)};

  std::vector<int64_t> extents = shape;
  std::vector<Placement> partial = whole.placements();
  Layout::Cuts cuts = CutsOf(whole);
  for (int dim : to_one) {
    for (int axis : x.AxesOf(dim)) partial[axis] = Placement::Partial();
    extents[dim] = x.shape()[dim];
    cuts[dim] = PartSizes(x, dim);
  }
  ADJOIN_ASSIGN_OR_RETURN(Layout reader, Layout::Create(extents, x.dtype(), x.mesh(), x.placements(), cuts));
  if (pool.mode() == "max") {
    ADJOIN_ASSIGN_OR_RETURN(auto candidates, Candidates(x, to_one, whole, pool.return_indices()));
    return PoolLayouts{std::move(reader), whole, std::move(output), std::move(candidates)};
  }
  ADJOIN_ASSIGN_OR_RETURN(Layout compute, Layout::Create(shape, x.dtype(), x.mesh(), partial, CutsOf(whole)));
  return PoolLayouts{std::move(reader), std::move(compute), std::move(output)};
}

}  // namespace

absl::StatusOr<LayerOutcome> PoolRule(const LayerRequest& request) {
  ADJOIN_RETURN_IF_ERROR(CheckOneFloatInput(request));
  ADJOIN_RETURN_IF_ERROR(CheckNoParameters(request.spec));
  const Layout& x = request.input[0];
  const Pool& pool = request.spec.pool();
  ADJOIN_RETURN_IF_ERROR(AtField("pool", CheckFields(pool)));
  const bool adaptive = pool.adaptive_size_size() > 0;
  auto dims = adaptive ? AdaptiveDims(pool, x.shape()) : WindowDims(pool, x.shape());
  if (!dims.ok()) return AtField("pool", dims.status());

  std::vector<int64_t> shape = {x.shape()[0], x.shape()[1]};
  shape.insert(shape.end(), dims->outputs.begin(), dims->outputs.end());
  auto volume = CheckedVolume(shape);
  if (!volume.ok()) return AtField("pool", volume.status());
  std::set<int> to_one;
  for (int dim = 2; adaptive && dim < x.dims(); ++dim) {
    if (shape[dim] == 1 && x.Parts(dim) > 1) to_one.insert(dim);
  }
  std::map<int, Reading> readings = dims->readings;
  for (int dim : to_one) readings.erase(dim);
  ADJOIN_ASSIGN_OR_RETURN(PoolLayouts layouts, LayoutsOf(request, KeysOf(readings), to_one, shape));
  Layer spec = request.spec;
  *spec.mutable_pool() = dims->filled;
  InputNeed need;
  need.readings = std::move(readings);
  need.fill = pool.mode() == "max" ? -std::numeric_limits<double>::infinity() : 0;
  need.reader = std::move(layouts.reader);
  const double flops = static_cast<double>(*volume) * dims->per_output;
  return LayerOutcome{.spec = std::move(spec),
                      .input = {std::move(need)},
                      .compute = std::move(layouts.compute),
                      .output = std::move(layouts.output),
                      .flops = flops,
                      .movement = std::move(layouts.movement)};
}

}  // namespace adjoin
