// torch.Tensor.expand: dims of extent 1, and new ones in front, repeat what they hold.
//
// Only the input moves, which is smaller: each rank fetches what its part of the output repeats. The output is cut as
// the input, in dims that grow evenly, or has the layout y.
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "layers/rules/broadcast_layout.h"
#include "layers/rules/layer_rule.h"
#include "layers/rules/rule_checks.h"
#include "layers/rules/spec_error.h"
#include "primitives/geometry/layout.h"

namespace adjoin {
namespace {

absl::StatusOr<std::vector<int64_t>> ExpandedTo(const Shape& spec, const std::vector<int64_t>& input) {
  ADJOIN_RETURN_IF_ERROR(AtField("arg", CheckDims(spec.arg_size())));
  std::vector<int64_t> shape;
  const int new_dims = spec.arg_size() - static_cast<int>(input.size());  // in front
  if (new_dims < 0) {
    return AtField("arg", InvalidSpec("expand names ", spec.arg_size(), " extents for an input of shape ",
                                      ShapeText(input), "; write one for each dim, -1 for what stays"));
  }
  for (int i = 0; i < spec.arg_size(); ++i) {
    const int64_t extent = spec.arg(i), old = i < new_dims ? 1 : input[i - new_dims];
    const std::string field = absl::StrCat("arg[", i, "]");
    if (extent < (i < new_dims ? 0 : -1)) {
      return AtField(field, InvalidSpec("extent ", extent, i < new_dims ? " of a new dim; it" : "; an extent",
                                        " is 0 or more", i < new_dims ? "" : ", or -1 for what stays"));
    }
    if (i == new_dims && extent != -1 && extent != old) {
      return AtField(field, InvalidSpec("the batch stays as it is: ", old, " samples, not ", extent,
                                        "; write -1. What is the same for every sample needs a batch of its own first,",
                                        " as in tokens"));
    }
    const bool stays = i >= new_dims && (extent == -1 || extent == old);
    if (!stays && old != 1) {
      return AtField(field, InvalidSpec("dim ", i - new_dims, " has ", old, " elements and cannot become ", extent,
                                        ": only dims of 1 element grow; an input of shape ", ShapeText(input)));
    }
    shape.push_back(stays ? old : extent);
  }
  return shape;
}

}  // namespace

absl::StatusOr<LayerOutcome> ExpandRule(const LayerRequest& request) {
  ADJOIN_RETURN_IF_ERROR(CheckOneInput(request));
  ADJOIN_RETURN_IF_ERROR(CheckNoParameters(request.spec));
  const Layout& x = request.input[0];
  if (x.dims() < 1) return AtField("input", InvalidSpec("its input is a single number; there is no batch to keep"));
  const auto shape = ExpandedTo(request.spec.expand(), x.shape());
  if (!shape.ok()) return AtField("expand", shape.status());
  auto volume = CheckedVolume(*shape);
  if (!volume.ok()) return AtField("expand", volume.status());
  ADJOIN_ASSIGN_OR_RETURN(const Layout natural, RepeatedTo(x, *shape));
  ADJOIN_ASSIGN_OR_RETURN(Layout output, OutputLayout(request, *shape, natural));
  ADJOIN_ASSIGN_OR_RETURN(Layout read, ReadWhenRepeated(x, output));
  Layer spec = request.spec;
  for (int i = 0; i < spec.expand().arg_size(); ++i) spec.mutable_expand()->set_arg(i, (*shape)[i]);
  return LayerOutcome{
      .spec = std::move(spec), .input = {InputNeed{.layout = std::move(read)}}, .compute = output, .output = output};
}

}  // namespace adjoin
