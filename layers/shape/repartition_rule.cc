// Changes nothing but the layout, to Layer.y.
#include <utility>

#include "base/status_macros.h"
#include "layers/rules/layer_rule.h"
#include "layers/rules/rule_checks.h"
#include "layers/rules/spec_error.h"

namespace adjoin {

absl::StatusOr<LayerOutcome> RepartitionRule(const LayerRequest& request) {
  ADJOIN_RETURN_IF_ERROR(CheckOneInput(request));
  ADJOIN_RETURN_IF_ERROR(CheckNoParameters(request.spec));
  if (request.spec.y().empty()) {
    return InvalidSpec("a repartition needs y, the layout it moves to: y: \"<layout>\"");
  }
  const Layout& x = request.input[0];
  ADJOIN_ASSIGN_OR_RETURN(Layout output, OutputLayout(request, x.shape(), x));
  return LayerOutcome{.spec = request.spec, .input = {InputNeed{}}, .compute = x, .output = std::move(output)};
}

}  // namespace adjoin
