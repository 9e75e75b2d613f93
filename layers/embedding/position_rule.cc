// Adds a vector for each position of [batch, ..., features], in any layout: nothing moves but the parameter.
//
// "learned": the parameter "weight" has the shape of one sample and is cut as the input's dims are, the same along axes
// that cut the batch. "sinusoidal", of one length dim: no parameters.
#include <string>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "layers/rules/layer_rule.h"
#include "layers/rules/layout_like.h"
#include "layers/rules/roles.h"
#include "layers/rules/rule_checks.h"
#include "layers/rules/spec_error.h"
#include "primitives/geometry/layout.h"

namespace adjoin {
namespace {

constexpr double kPositionDeviation = 0.02;  // as vision transformers and language models draw them

absl::StatusOr<ParameterNeed> Learned(const LayerRequest& request) {
  const Layout& x = request.input[0];
  if (!request.spec.w().empty()) {
    return AtField("w", InvalidSpec("w is for a weight that is cut otherwise than the input; position's is cut as the"
                                    " input is: leave it out"));
  }
  ADJOIN_ASSIGN_OR_RETURN(Layout needed, DimsFrom(1, x, request.parameter_dtype));
  ADJOIN_ASSIGN_OR_RETURN(Layout home, HomeOf(request.spec, needed, needed, x.mesh().ranks()));
  ParameterNeed weight{.role = kRoleWeight, .home = std::move(home), .needed = std::move(needed)};
  weight.init.emplace();
  weight.init->set_kind("normal");
  weight.init->set_gain(kPositionDeviation);
  return weight;
}

}  // namespace

absl::StatusOr<LayerOutcome> PositionRule(const LayerRequest& request) {
  ADJOIN_RETURN_IF_ERROR(CheckOneFloatInput(request));
  const Layout& x = request.input[0];
  if (x.dims() < 3) {
    return AtField("input",
                   InvalidSpec("it reads [batch, length, features] or [batch, spatial ..., features]; its input is ",
                               ShapeText(x.shape())));
  }
  const std::string& kind = request.spec.position().kind();
  std::vector<ParameterNeed> parameters;
  if (kind == "learned") {
    ADJOIN_ASSIGN_OR_RETURN(ParameterNeed weight, Learned(request));
    parameters.push_back(std::move(weight));
  } else if (kind == "sinusoidal") {
    ADJOIN_RETURN_IF_ERROR(CheckNoParameters(request.spec));
    if (x.dims() != 3) {
      return AtField("position.kind",
                     InvalidSpec("position.kind \"sinusoidal\" is for [batch, length, features]; the input"
                                 " is ",
                                 ShapeText(x.shape()), ": write \"learned\""));
    }
  } else {
    return AtField("position.kind", InvalidSpec("position.kind is ", kind.empty() ? "missing" : "\"" + kind + "\"",
                                                "; write \"learned\" or \"sinusoidal\""));
  }
  ADJOIN_ASSIGN_OR_RETURN(const int64_t volume, CheckedVolume(x.shape()));
  ADJOIN_ASSIGN_OR_RETURN(Layout output, OutputLayout(request, x.shape(), x));
  return LayerOutcome{.spec = request.spec,
                      .input = {InputNeed{}},
                      .parameter = std::move(parameters),
                      .compute = x,
                      .output = std::move(output),
                      .flops = static_cast<double>(volume)};
}

}  // namespace adjoin
