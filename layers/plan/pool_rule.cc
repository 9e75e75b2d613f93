#include "layers/plan/pool_rule.h"

#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "layers/plan/rule_checks.h"
#include "layers/plan/spec_error.h"
#include "layers/plan/windowed.h"

namespace adjoin {
namespace {

absl::Status CheckMode(const Pool& pool) {
  if (pool.mode() == "max") return absl::OkStatus();
  if (pool.mode() == "avg" || pool.mode() == "lp") {
    return AtField("mode", NotSupportedYet(absl::StrCat("pooling with mode \"", pool.mode(), "\""), "\"max\" is"));
  }
  return AtField("mode", InvalidSpec("pool.mode \"", pool.mode(), "\" is not known; write \"max\", \"avg\" or \"lp\""));
}

}  // namespace

absl::StatusOr<LayerOutcome> PoolRule::Apply(const LayerRequest& request) const {
  ADJOIN_RETURN_IF_ERROR(CheckOneFloatInput(request));
  ADJOIN_RETURN_IF_ERROR(CheckNoParameters(request.spec));
  const Layout& x = request.input[0];
  Layer spec = request.spec;
  Pool& pool = *spec.mutable_pool();
  ADJOIN_RETURN_IF_ERROR(AtField("pool", CheckMode(pool)));
  auto dims = WindowsOf(pool.window(), x.shape(), /*pooling=*/true, pool.ceil_mode());
  if (!dims.ok()) return AtField("pool.window", dims.status());
  *pool.mutable_window() = dims->filled;

  std::vector<int64_t> shape = {x.shape()[0], x.shape()[1]};
  shape.insert(shape.end(), dims->outputs.begin(), dims->outputs.end());
  ADJOIN_ASSIGN_OR_RETURN(const int64_t volume, CheckedVolume(shape));
  ADJOIN_ASSIGN_OR_RETURN(WindowedLayouts layouts, LayoutsOf(request, dims->windows, shape));
  double flops = static_cast<double>(volume);
  for (uint32_t kernel : dims->filled.kernel()) flops *= kernel;
  InputNeed need{std::nullopt, dims->windows, -std::numeric_limits<double>::infinity()};
  return LayerOutcome{
      std::move(spec), {std::move(need)}, {}, std::move(layouts.compute), std::move(layouts.output), flops};
}

}  // namespace adjoin
