#include "layers/plan/linear_rule.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "layers/plan/rule_checks.h"
#include "layers/plan/spec_error.h"

namespace adjoin {
namespace {

// The weight's layout: a mesh of two axes, out and in.
absl::StatusOr<Layout> WeightBlocks(const LayerRequest& request, const std::vector<int64_t>& weight) {
  ADJOIN_ASSIGN_OR_RETURN(Layout w, request.layouts.Resolve(request.spec.w(), weight, request.parameter_dtype));
  if (w.placements() != std::vector<Placement>{Placement::Split(0), Placement::Split(1)}) {
    return InvalidSpec("w of a linear layer is a partition [out, in], with two numbers; layout \"", request.spec.w(),
                       "\" is not one");
  }
  return w;
}

absl::Status CheckInput(const Layout& x) {
  if (x.dims() != 2) {
    const std::string shape = ShapeText(x.shape());
    if (x.dims() > 2) {
      return AtField("input",
                     NotSupportedYet(absl::StrCat("a linear layer on an input of ", x.dims(), " dims, ", shape, ","),
                                     "flatten it to [batch, features] first"));
    }
    return AtField("input", InvalidSpec("it reads [batch, features]; its input is ", shape));
  }
  if (x.shape()[1] < 1) return AtField("input", InvalidSpec("its input has no features"));
  return absl::OkStatus();
}

// Who computes what: in both forms of the layer.
struct Operands {
  std::optional<Layout> x;  // absent: as P_x has it
  Layout weight;
  Layout bias;
  Layout compute;
  Layout output;
};

absl::StatusOr<Operands> WithWeightLayout(const LayerRequest& request, const std::vector<int64_t>& weight) {
  auto resolved = WeightBlocks(request, weight);
  if (!resolved.ok()) return AtField("w", resolved.status());
  const Layout& w = *resolved;
  const Layout& x = request.input[0];
  const int64_t out_parts = w.mesh().shape()[0];
  std::vector<int> first_column;  // `in` index 0
  for (int64_t out = 0; out < out_parts; ++out) first_column.push_back(w.mesh().RankAt({out, 0}));
  const std::vector<int64_t> shape = {x.shape()[0], weight[0]};
  const std::vector<int64_t> out_sizes = PartSizes(w, 0);
  ADJOIN_ASSIGN_OR_RETURN(Layout needed,
                          Layout::Create(x.shape(), x.dtype(), w.mesh(), {Placement::Broadcast(), Placement::Split(1)},
                                         {{1, PartSizes(w, 1)}}));
  ADJOIN_ASSIGN_OR_RETURN(
      Layout compute,
      Layout::Create(shape, x.dtype(), w.mesh(), {Placement::Split(1), Placement::Partial()}, {{1, out_sizes}}));
  ADJOIN_ASSIGN_OR_RETURN(Layout column,
                          Layout::Partition(shape, x.dtype(), {1, out_parts}, first_column, {{1, out_sizes}}));
  ADJOIN_ASSIGN_OR_RETURN(Layout bias, Layout::Partition({weight[0]}, request.parameter_dtype, {out_parts},
                                                         first_column, {{0, out_sizes}}));
  ADJOIN_ASSIGN_OR_RETURN(Layout output, OutputLayout(request, shape, column));
  return Operands{std::move(needed), w, std::move(bias), std::move(compute), std::move(output)};
}

absl::StatusOr<Operands> WithWholeWeight(const LayerRequest& request, const std::vector<int64_t>& weight) {
  const Layout& x = request.input[0];
  if (x.Parts(1) > 1) {
    return InvalidSpec("its input is cut in its features (dim 1, into ", x.Parts(1),
                       " parts), but every rank uses the whole"
                       " weight; name w, a partition [out, in] of the weight, or x, a layout that cuts the batch only:"
                       " partition: [",
                       x.mesh().size(), ", 1]");
  }
  const std::vector<int>& ranks = x.mesh().ranks();
  ADJOIN_ASSIGN_OR_RETURN(Layout needed, Layout::Replicated(weight, request.parameter_dtype, ranks));
  ADJOIN_ASSIGN_OR_RETURN(Layout bias, Layout::Replicated({weight[0]}, request.parameter_dtype, ranks));
  ADJOIN_ASSIGN_OR_RETURN(Layout compute, x.WithShape({x.shape()[0], weight[0]}));
  ADJOIN_ASSIGN_OR_RETURN(Layout output, OutputLayout(request, compute.shape(), compute));
  return Operands{std::nullopt, std::move(needed), std::move(bias), std::move(compute), std::move(output)};
}

}  // namespace

absl::StatusOr<LayerOutcome> LinearRule::Apply(const LayerRequest& request) const {
  ADJOIN_RETURN_IF_ERROR(CheckOneFloatInput(request));
  const Layout& x = request.input[0];
  ADJOIN_RETURN_IF_ERROR(CheckInput(x));
  Layer spec = request.spec;
  Linear& linear = *spec.mutable_linear();
  if (linear.out_features() < 1) {
    return AtField("linear.out_features", InvalidSpec("linear.out_features is missing; it must be at least 1"));
  }
  linear.set_bias(linear.has_bias() ? linear.bias() : true);
  const int64_t in_features = x.shape()[1], out_features = linear.out_features();
  const std::vector<int64_t> weight = {out_features, in_features};
  auto volume = CheckedVolume(weight);
  if (!volume.ok()) return AtField("linear", volume.status());
  ADJOIN_RETURN_IF_ERROR(CheckedVolume({x.shape()[0], out_features}).status());
  ADJOIN_ASSIGN_OR_RETURN(Operands operands,
                          spec.w().empty() ? WithWholeWeight(request, weight) : WithWeightLayout(request, weight));

  const std::vector<int>& ranks = operands.weight.mesh().ranks();
  ADJOIN_ASSIGN_OR_RETURN(Layout weight_home, HomeOf(spec, operands.weight, operands.weight, ranks));
  std::vector<ParameterNeed> parameters;
  parameters.push_back({"weight", std::move(weight_home), operands.weight, in_features});
  if (linear.bias()) {
    ADJOIN_ASSIGN_OR_RETURN(Layout bias_home, HomeOf(spec, operands.bias, operands.bias, ranks));
    parameters.push_back({"bias", std::move(bias_home), operands.bias, in_features});
  }
  const double flops = 2.0 * static_cast<double>(x.shape()[0]) * static_cast<double>(*volume);
  return LayerOutcome{std::move(spec),
                      {InputNeed{std::move(operands.x)}},
                      std::move(parameters),
                      std::move(operands.compute),
                      std::move(operands.output),
                      flops};
}

}  // namespace adjoin
