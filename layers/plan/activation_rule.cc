#include "layers/plan/activation_rule.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "layers/plan/rule_checks.h"
#include "layers/plan/spec_error.h"

namespace adjoin {

absl::StatusOr<LayerOutcome> ActivationRule::Apply(const LayerRequest& request) const {
  ADJOIN_RETURN_IF_ERROR(CheckOneFloatInput(request));
  ADJOIN_RETURN_IF_ERROR(CheckNoParameters(request.spec));
  const Activation& activation = request.spec.activation();
  if (activation.fn().empty()) return AtField("activation.fn", InvalidSpec("activation.fn is missing; write \"relu\""));
  if (activation.fn() != "relu") {
    return AtField("activation.fn",
                   NotSupportedYet(absl::StrCat("activation \"", activation.fn(), "\""), "\"relu\" is"));
  }
  if (activation.arg_size() > 0) {
    return AtField("activation.arg", InvalidSpec("relu has no arguments, but ", activation.arg_size(), " are given"));
  }
  const Layout& x = request.input[0];
  ADJOIN_ASSIGN_OR_RETURN(const int64_t volume, CheckedVolume(x.shape()));
  ADJOIN_ASSIGN_OR_RETURN(Layout output, OutputLayout(request, x.shape(), x));
  return LayerOutcome{request.spec, {InputNeed{}}, {}, x, std::move(output), static_cast<double>(volume)};
}

}  // namespace adjoin
