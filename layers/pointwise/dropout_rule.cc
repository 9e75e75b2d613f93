// torch.nn.Dropout, and Dropout1d, 2d and 3d with `channel`, in any layout: nothing moves.
//
// Whether an element stays belongs to its position in the step's batch. Programs that do not train leave the input as
// it is.
#include <utility>

#include "base/status_macros.h"
#include "layers/rules/layer_rule.h"
#include "layers/rules/rule_checks.h"
#include "layers/rules/spec_error.h"
#include "primitives/geometry/layout.h"

namespace adjoin {

absl::StatusOr<LayerOutcome> DropoutRule(const LayerRequest& request) {
  ADJOIN_RETURN_IF_ERROR(CheckOneFloatInput(request));
  ADJOIN_RETURN_IF_ERROR(CheckNoParameters(request.spec));
  const Dropout& dropout = request.spec.dropout();
  // Written so that NaN is refused.
  if (!(dropout.p() >= 0 && dropout.p() <= 1)) {
    return AtField("dropout.p", InvalidSpec("dropout.p is ", dropout.p(), "; it is a probability, from 0 to 1"));
  }
  const Layout& x = request.input[0];
  if (dropout.channel() && x.dims() < 2) {
    return AtField("dropout.channel", InvalidSpec("dropout.channel is for inputs [batch, channels, ...]; this one is ",
                                                  ShapeText(x.shape())));
  }
  ADJOIN_ASSIGN_OR_RETURN(const int64_t volume, CheckedVolume(x.shape()));
  ADJOIN_ASSIGN_OR_RETURN(Layout output, OutputLayout(request, x.shape(), x));
  // One multiplication each; drawing is not counted.
  const double flops = request.training && dropout.p() > 0 ? static_cast<double>(volume) : 0;
  return LayerOutcome{
      .spec = request.spec, .input = {InputNeed{}}, .compute = x, .output = std::move(output), .flops = flops};
}

}  // namespace adjoin
