// torch.cat of all inputs along one dim, in any layouts, the dim itself cut or not.
//
// The result has the layout y, or that of the first input with this dim cut evenly. Of each input a rank reads what its
// part of the result holds of it: these are the parts of a layout whose cuts are those of the result, seen from the
// input.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "layers/rules/layer_rule.h"
#include "layers/rules/rule_checks.h"
#include "layers/rules/spec_error.h"

namespace adjoin {
namespace {

absl::StatusOr<int> DimOf(const Shape& spec, int dims) {
  if (spec.arg_size() != 1) {
    return AtField("concat.arg", InvalidSpec("concat has one argument, the dim; ", spec.arg_size(),
                                             " are given. For the channels, write arg: 1"));
  }
  return CheckedDim("concat.arg[0]", spec.arg(0), dims);
}

// The shape of the result. Errors: inputs that differ elsewhere than in `dim`.
absl::StatusOr<std::vector<int64_t>> ShapeOf(const std::vector<Layout>& inputs, int dim) {
  std::vector<int64_t> shape = inputs[0].shape();
  for (size_t i = 1; i < inputs.size(); ++i) {
    std::vector<int64_t> other = inputs[i].shape();
    bool fits = other.size() == shape.size();
    for (size_t d = 0; fits && d < shape.size(); ++d) fits = static_cast<int>(d) == dim || other[d] == shape[d];
    if (!fits) {
      return AtField(absl::StrCat("input[", i, "]"),
                     InvalidSpec("concat along dim ", dim, " reads inputs that differ in that dim only; input 0 is ",
                                 ShapeText(inputs[0].shape()), ", input ", i, " is ", ShapeText(other)));
    }
    shape[dim] += other[dim];
    ADJOIN_RETURN_IF_ERROR(CheckedVolume(shape).status());
  }
  return shape;
}

Layout::Cuts CutsOf(const Layout& layout) {
  Layout::Cuts cuts;
  for (int dim = 0; dim < layout.dims(); ++dim) {
    if (!layout.AxesOf(dim).empty()) cuts[dim] = PartSizes(layout, dim);
  }
  return cuts;
}

// What the parts of `output` hold of an input that has `extent` cells of `dim`, from `offset` on.
absl::StatusOr<Layout> Share(const Layout& output, int dim, int64_t offset, int64_t extent) {
  std::vector<int64_t> shape = output.shape();
  shape[dim] = extent;
  Layout::Cuts cuts = CutsOf(output);
  if (cuts.count(dim) > 0) {
    const std::vector<int64_t>& boundaries = output.Boundaries(dim);
    const auto within = [&](int64_t index) { return std::clamp<int64_t>(index - offset, 0, extent); };
    for (size_t part = 0; part < cuts[dim].size(); ++part) {
      cuts[dim][part] = within(boundaries[part + 1]) - within(boundaries[part]);
    }
  }
  return Layout::Create(std::move(shape), output.dtype(), output.mesh(), output.placements(), std::move(cuts));
}

}  // namespace

absl::StatusOr<LayerOutcome> ConcatRule(const LayerRequest& request) {
  ADJOIN_RETURN_IF_ERROR(CheckFloatInputs(request));
  ADJOIN_RETURN_IF_ERROR(CheckNoParameters(request.spec));
  const Layout& x = request.input[0];
  ADJOIN_ASSIGN_OR_RETURN(const int dim, DimOf(request.spec.concat(), x.dims()));
  ADJOIN_ASSIGN_OR_RETURN(std::vector<int64_t> shape, ShapeOf(request.input, dim));
  ADJOIN_RETURN_IF_ERROR(CheckedVolume(shape).status());
  Layout::Cuts cuts = CutsOf(x);
  cuts.erase(dim);
  ADJOIN_ASSIGN_OR_RETURN(Layout alike, Layout::Create(shape, x.dtype(), x.mesh(), x.placements(), std::move(cuts)));
  ADJOIN_ASSIGN_OR_RETURN(Layout output, OutputLayout(request, shape, alike));
  std::vector<InputNeed> needs;
  int64_t offset = 0;
  for (const Layout& input : request.input) {
    ADJOIN_ASSIGN_OR_RETURN(Layout share, Share(output, dim, offset, input.shape()[dim]));
    offset += input.shape()[dim];
    needs.push_back(InputNeed{.layout = std::move(share)});
  }
  Layer spec = request.spec;
  spec.mutable_concat()->set_arg(0, dim);
  return LayerOutcome{.spec = std::move(spec), .input = std::move(needs), .compute = output, .output = output};
}

}  // namespace adjoin
