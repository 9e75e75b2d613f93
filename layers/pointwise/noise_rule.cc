// Normal numbers added to the input, or one plus them multiplied with it, in any layout: nothing moves.
//
// An element's number belongs to its position in the step's batch. Programs that do not train leave the input as it is.
#include <cmath>
#include <utility>

#include "base/status_macros.h"
#include "layers/rules/layer_rule.h"
#include "layers/rules/rule_checks.h"
#include "layers/rules/spec_error.h"
#include "primitives/geometry/layout.h"

namespace adjoin {

absl::StatusOr<LayerOutcome> NoiseRule(const LayerRequest& request) {
  ADJOIN_RETURN_IF_ERROR(CheckOneFloatInput(request));
  ADJOIN_RETURN_IF_ERROR(CheckNoParameters(request.spec));
  const double std = request.spec.noise().std();
  if (!std::isfinite(std) || std <= 0) {
    return AtField("noise.std", InvalidSpec("noise.std is ", std, "; it must be a finite number above 0"));
  }
  const Layout& x = request.input[0];
  ADJOIN_ASSIGN_OR_RETURN(const int64_t volume, CheckedVolume(x.shape()));
  ADJOIN_ASSIGN_OR_RETURN(Layout output, OutputLayout(request, x.shape(), x));
  // A multiplication and an addition each; drawing is not counted.
  const double flops = request.training ? 2.0 * static_cast<double>(volume) : 0;
  return LayerOutcome{
      .spec = request.spec, .input = {InputNeed{}}, .compute = x, .output = std::move(output), .flops = flops};
}

}  // namespace adjoin
