// [batch, count, features]: the same trained vectors, the parameter "weight" [count, features], for every sample.
//
// The input's shape, [batch, ..., features], and layout count: batch and features are cut alike; along axes that cut
// its other dims all ranks have the same. Nothing moves but the parameter. The input's gradient is zero.
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "layers/rules/layer_rule.h"
#include "layers/rules/roles.h"
#include "layers/rules/rule_checks.h"
#include "layers/rules/spec_error.h"
#include "primitives/geometry/layout.h"

namespace adjoin {
namespace {

constexpr double kTokenDeviation = 0.02;  // as vision transformers draw them

// A tensor of `shape`, whose features are its last dim, cut as x's are; its batch, dim 0, likewise where `has_batch`.
// The same along all other axes.
absl::StatusOr<Layout> CutAs(const Layout& x, std::vector<int64_t> shape, bool has_batch, DType dtype) {
  const int features = x.dims() - 1, last = static_cast<int>(shape.size()) - 1;
  std::vector<Placement> placements = x.placements();
  Layout::Cuts cuts;
  for (Placement& placement : placements) {
    if (placement == Placement::Split(features)) {
      placement = Placement::Split(last);
      cuts[last] = PartSizes(x, features);
    } else if (has_batch && placement == Placement::Split(0)) {
      cuts[0] = PartSizes(x, 0);
    } else {
      placement = Placement::Broadcast();
    }
  }
  return Layout::Create(std::move(shape), dtype, x.mesh(), std::move(placements), std::move(cuts));
}

}  // namespace

absl::StatusOr<LayerOutcome> TokensRule(const LayerRequest& request) {
  ADJOIN_RETURN_IF_ERROR(CheckOneFloatInput(request));
  const Layout& x = request.input[0];
  if (x.dims() < 2) {
    return AtField("input", InvalidSpec("it reads [batch, ..., features]; its input is ", ShapeText(x.shape())));
  }
  const int64_t count = request.spec.tokens().count();
  if (count < 1) return AtField("tokens.count", InvalidSpec("tokens.count is missing; it must be at least 1"));
  if (!request.spec.w().empty()) {
    return AtField("w",
                   InvalidSpec("w is for a weight that is cut otherwise than the input; tokens' features are cut as"
                               " the input's are: leave it out"));
  }
  const std::vector<int64_t> shape = {x.shape()[0], count, x.shape().back()};
  ADJOIN_ASSIGN_OR_RETURN(const int64_t volume, CheckedVolume(shape));
  ADJOIN_ASSIGN_OR_RETURN(Layout compute, CutAs(x, shape, /*has_batch=*/true, x.dtype()));
  ADJOIN_ASSIGN_OR_RETURN(Layout output, OutputLayout(request, shape, compute));
  ADJOIN_ASSIGN_OR_RETURN(Layout needed,
                          CutAs(x, {count, x.shape().back()}, /*has_batch=*/false, request.parameter_dtype));
  ADJOIN_ASSIGN_OR_RETURN(Layout home, HomeOf(request.spec, needed, needed, x.mesh().ranks()));
  ParameterNeed weight{.role = kRoleWeight, .home = std::move(home), .needed = std::move(needed)};
  weight.init.emplace();
  weight.init->set_kind("normal");
  weight.init->set_gain(kTokenDeviation);
  // Each number of the result is copied once.
  return LayerOutcome{.spec = request.spec,
                      .input = {InputNeed{}},
                      .parameter = {std::move(weight)},
                      .compute = std::move(compute),
                      .output = std::move(output),
                      .flops = static_cast<double>(volume)};
}

}  // namespace adjoin
