// A module's own parameter or buffer, "weight" of OwnParameter.shape: added to the input, multiplied with it, or
// returned for every sample.
//
// The input stays where it is. The parameter is cut as those dims of the result are that it has, and the same along all
// other axes. "expand": the result's batch is cut as the input's, and its last dim too where the extents are equal.
// "value": the result is one sample, the same on all of the input's ranks.
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "layers/pointwise/parameter_part.h"
#include "layers/rules/layer_rule.h"
#include "layers/rules/roles.h"
#include "layers/rules/rule_checks.h"
#include "layers/rules/spec_error.h"
#include "primitives/geometry/layout.h"

namespace adjoin {
namespace {

constexpr double kStandardDeviation = 0.02;  // as vision transformers and language models draw them

absl::Status CheckSpec(const LayerRequest& request) {
  const OwnParameter& spec = request.spec.parameter();
  const std::vector<int64_t> shape(spec.shape().begin(), spec.shape().end());
  if (shape.empty()) {
    return AtField("parameter.shape", InvalidSpec("parameter.shape is missing: the parameter's shape in PyTorch"));
  }
  ADJOIN_RETURN_IF_ERROR(AtField("parameter.shape", CheckDims(static_cast<int64_t>(shape.size()))));
  for (int i = 0; i < spec.shape_size(); ++i) {
    if (shape[i] >= 1) continue;
    return AtField(absl::StrCat("parameter.shape[", i, "]"), InvalidSpec("an extent is at least 1, not ", shape[i]));
  }
  ADJOIN_RETURN_IF_ERROR(AtField("parameter.shape", CheckedVolume(shape).status()));
  if (spec.length_size() > 0 && spec.length_size() != spec.shape_size()) {
    return AtField("parameter.length", InvalidSpec("parameter.length has ", spec.length_size(), " numbers; the shape ",
                                                   ShapeText(shape), " has ", shape.size(), " dims"));
  }
  for (int i = 0; i < spec.length_size(); ++i) {
    if (spec.length(i) >= 1 && spec.length(i) <= shape[i]) continue;
    return AtField(
        absl::StrCat("parameter.length[", i, "]"),
        InvalidSpec("it is ", spec.length(i), "; the dim has ", shape[i], " elements, of which at least 1 is used"));
  }
  if (request.spec.w().empty()) return absl::OkStatus();
  return AtField("w", InvalidSpec("w is for a weight that is cut otherwise than the input; this one is cut as the input"
                                  " is: leave it out"));
}

// Where `used`, aligned at the last dim, gives `x` no other shape.
absl::Status CheckCombines(const std::vector<int64_t>& used, const std::vector<int64_t>& x) {
  bool fits = used.size() <= x.size();
  for (size_t i = 1; fits && i <= used.size(); ++i) {
    fits = used[used.size() - i] == 1 || used[used.size() - i] == x[x.size() - i];
  }
  const bool of_batch = fits && used.size() == x.size() && used[0] != 1;
  if (fits && !of_batch) return absl::OkStatus();
  return AtField(
      "parameter.shape",
      InvalidSpec("a parameter of ", ShapeText(used), " is not for an input of ", ShapeText(x),
                  ": aligned at the last dim, each extent must be the input's or 1, and 1 beside the batch"));
}

// [batch, used ...], cut in the batch as x is, and in the last dim too.
absl::StatusOr<Layout> Expanded(const Layout& x, const std::vector<int64_t>& used) {
  std::vector<int64_t> shape = used;
  shape[0] = x.shape()[0];
  const int last = x.dims() - 1, own = static_cast<int>(shape.size()) - 1;
  std::vector<Placement> placements = x.placements();
  Layout::Cuts cuts;
  for (Placement& placement : placements) {
    if (placement == Placement::Split(0)) {
      cuts[0] = PartSizes(x, 0);
    } else if (last > 0 && own > 0 && placement == Placement::Split(last) && shape[own] == x.shape()[last]) {
      placement = Placement::Split(own);
      cuts[own] = PartSizes(x, last);
    } else {
      placement = Placement::Broadcast();
    }
  }
  return Layout::Create(std::move(shape), x.dtype(), x.mesh(), std::move(placements), std::move(cuts));
}

absl::StatusOr<Layout> ComputeLayout(const LayerRequest& request, const std::vector<int64_t>& used) {
  const Layout& x = request.input[0];
  const std::string& combine = request.spec.parameter().combine();
  if (combine == "add" || combine == "multiply") {
    ADJOIN_RETURN_IF_ERROR(CheckCombines(used, x.shape()));
    return x;
  }
  if (combine == "value") {
    std::vector<int64_t> shape = {1};
    shape.insert(shape.end(), used.begin(), used.end());
    ADJOIN_RETURN_IF_ERROR(AtField("parameter.shape", CheckDims(static_cast<int64_t>(shape.size()))));
    return Layout::Create(std::move(shape), x.dtype(), x.mesh(),
                          std::vector<Placement>(x.placements().size(), Placement::Broadcast()), {});
  }
  if (combine != "expand") {
    return AtField("parameter.combine",
                   InvalidSpec("parameter.combine is ", combine.empty() ? "missing" : "\"" + combine + "\"",
                               "; write \"add\", \"multiply\", \"expand\" or \"value\""));
  }
  if (used[0] != 1) {
    return AtField("parameter.shape[0]", InvalidSpec("it is ", request.spec.parameter().shape(0),
                                                     "; a parameter that is expanded to the batch has 1 there"));
  }
  return Expanded(x, used);
}

absl::StatusOr<ParameterNeed> WeightNeed(const LayerRequest& request, const Layout& compute) {
  const OwnParameter& spec = request.spec.parameter();
  ADJOIN_ASSIGN_OR_RETURN(Layout needed, ParameterNeeded(spec, compute, request.parameter_dtype));
  ADJOIN_ASSIGN_OR_RETURN(Layout home, HomeOf(request.spec, needed, needed, compute.mesh().ranks()));
  ParameterNeed weight{.role = kRoleWeight, .home = std::move(home), .needed = std::move(needed)};
  weight.buffer = spec.buffer();
  if (spec.combine() == "multiply" || spec.buffer()) {
    weight.initial = spec.combine() == "multiply" ? 1.0 : 0.0;
  } else {
    weight.init.emplace();
    weight.init->set_kind("normal");
    weight.init->set_gain(kStandardDeviation);
  }
  return weight;
}

}  // namespace

absl::StatusOr<LayerOutcome> ParameterRule(const LayerRequest& request) {
  ADJOIN_RETURN_IF_ERROR(CheckOneFloatInput(request));
  ADJOIN_RETURN_IF_ERROR(CheckSpec(request));
  ADJOIN_ASSIGN_OR_RETURN(Layout compute, ComputeLayout(request, UsedShape(request.spec.parameter())));
  ADJOIN_ASSIGN_OR_RETURN(const int64_t volume, CheckedVolume(compute.shape()));
  ADJOIN_ASSIGN_OR_RETURN(ParameterNeed weight, WeightNeed(request, compute));
  ADJOIN_ASSIGN_OR_RETURN(Layout output, OutputLayout(request, compute.shape(), compute));
  return LayerOutcome{.spec = request.spec,
                      .input = {InputNeed{}},
                      .parameter = {std::move(weight)},
                      .compute = std::move(compute),
                      .output = std::move(output),
                      .flops = static_cast<double>(volume)};
}

}  // namespace adjoin
