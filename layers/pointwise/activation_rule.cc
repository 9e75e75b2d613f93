// An element-wise function: local in every layout; the output has the layout of the input.
//
// The weight of prelu (one number, or one per channel) is cut as the input's channels are.
// Those of activation_functions.h.
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "layers/pointwise/activation_functions.h"
#include "layers/rules/layer_rule.h"
#include "layers/rules/layout_like.h"
#include "layers/rules/roles.h"
#include "layers/rules/rule_checks.h"
#include "layers/rules/spec_error.h"
#include "primitives/geometry/layout.h"

namespace adjoin {
namespace {

constexpr int kChannelDim = 1;

absl::StatusOr<ParameterNeed> PreluWeight(const LayerRequest& request, double count, double initial) {
  const Layout& x = request.input[0];
  if (!request.spec.w().empty()) {
    return AtField("w", InvalidSpec("w is for a weight that is cut otherwise than the input; prelu's is cut as the"
                                    " channels are: leave it out"));
  }
  const int64_t channels = x.dims() > kChannelDim ? x.shape()[kChannelDim] : 1;
  if (count != 1 && count != static_cast<double>(channels)) {
    return AtField("activation.arg[0]",
                   InvalidSpec("num_parameters of prelu is ", count, ", but its input, ", ShapeText(x.shape()),
                               ", has ", channels, " channels; write that, or 1"));
  }
  absl::StatusOr<Layout> needed = count == 1 ? Layout::Replicated({1}, request.parameter_dtype, x.mesh().ranks())
                                             : PerChannel(x, request.parameter_dtype);
  ADJOIN_RETURN_IF_ERROR(needed.status());
  ADJOIN_ASSIGN_OR_RETURN(Layout home, HomeOf(request.spec, *needed, *needed, x.mesh().ranks()));
  return ParameterNeed{.role = kRoleWeight, .home = std::move(home), .needed = *std::move(needed), .initial = initial};
}

}  // namespace

absl::StatusOr<LayerOutcome> ActivationRule(const LayerRequest& request) {
  ADJOIN_RETURN_IF_ERROR(CheckOneFloatInput(request));
  auto arguments = ArgumentsOf(request.spec.activation());
  if (!arguments.ok()) return AtField("activation", arguments.status());
  std::vector<ParameterNeed> parameters;
  if (request.spec.activation().fn() == "prelu") {
    ADJOIN_ASSIGN_OR_RETURN(ParameterNeed weight, PreluWeight(request, (*arguments)[0], (*arguments)[1]));
    parameters.push_back(std::move(weight));
  } else {
    ADJOIN_RETURN_IF_ERROR(CheckNoParameters(request.spec));
  }
  const Layout& x = request.input[0];
  ADJOIN_ASSIGN_OR_RETURN(const int64_t volume, CheckedVolume(x.shape()));
  ADJOIN_ASSIGN_OR_RETURN(Layout output, OutputLayout(request, x.shape(), x));
  Layer spec = request.spec;
  spec.mutable_activation()->clear_arg();
  spec.mutable_activation()->mutable_arg()->Add(arguments->begin(), arguments->end());
  return LayerOutcome{.spec = std::move(spec),
                      .input = {InputNeed{}},
                      .parameter = std::move(parameters),
                      .compute = x,
                      .output = std::move(output),
                      .flops = static_cast<double>(volume)};
}

}  // namespace adjoin
