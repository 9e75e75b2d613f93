// torch.Tensor.expand: dims of extent 1, and new ones in front, repeat what they hold.
//
// Only the input moves, which is smaller: each rank fetches what its part of the output repeats. The output is cut as
// the input, in dims that grow evenly, or has the layout y.
#include <cstdint>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "layers/rules/layer_rule.h"
#include "layers/rules/rule_checks.h"
#include "layers/rules/spec_error.h"
#include "primitives/geometry/layout.h"

namespace adjoin {
namespace {

struct Expansion {
  std::vector<int64_t> shape;
  int new_dims = 0;      // in front
  std::set<int> repeat;  // the output's dims that are new or grow
};

absl::StatusOr<Expansion> ExpansionOf(const Shape& spec, const std::vector<int64_t>& input) {
  ADJOIN_RETURN_IF_ERROR(AtField("arg", CheckDims(spec.arg_size())));
  Expansion result;
  result.new_dims = spec.arg_size() - static_cast<int>(input.size());
  if (result.new_dims < 0) {
    return AtField("arg", InvalidSpec("expand names ", spec.arg_size(), " extents for an input of shape ",
                                      ShapeText(input), "; write one for each dim, -1 for what stays"));
  }
  for (int i = 0; i < spec.arg_size(); ++i) {
    const int64_t extent = spec.arg(i), old = i < result.new_dims ? 1 : input[i - result.new_dims];
    const std::string field = absl::StrCat("arg[", i, "]");
    if (extent < (i < result.new_dims ? 0 : -1)) {
      return AtField(field, InvalidSpec("extent ", extent, i < result.new_dims ? " of a new dim; it" : "; an extent",
                                        " is 0 or more", i < result.new_dims ? "" : ", or -1 for what stays"));
    }
    if (i == result.new_dims && extent != -1 && extent != old) {
      return AtField(field, InvalidSpec("the batch stays as it is: ", old, " samples, not ", extent,
                                        "; write -1. What is the same for every sample needs a batch of its own first,",
                                        " as in tokens"));
    }
    const bool stays = i >= result.new_dims && (extent == -1 || extent == old);
    if (!stays && old != 1) {
      return AtField(field, InvalidSpec("dim ", i - result.new_dims, " has ", old, " elements and cannot become ",
                                        extent, ": only dims of 1 element grow; an input of shape ", ShapeText(input)));
    }
    if (!stays) result.repeat.insert(i);
    result.shape.push_back(stays ? old : extent);
  }
  return result;
}

// As the input is cut, in dims that grow evenly.
absl::StatusOr<Layout> Natural(const Layout& x, const Expansion& expansion) {
  std::vector<Placement> placements = x.placements();
  Layout::Cuts cuts;
  for (Placement& placement : placements) {
    if (placement.kind != Placement::Kind::kSplit) continue;
    const int dim = placement.dim;
    placement.dim += expansion.new_dims;
    if (expansion.repeat.count(placement.dim) == 0) cuts[placement.dim] = PartSizes(x, dim);
  }
  return Layout::Create(expansion.shape, x.dtype(), x.mesh(), std::move(placements), std::move(cuts));
}

// What the parts of `output` repeat.
absl::StatusOr<Layout> Repeated(const Layout& x, const Expansion& expansion, const Layout& output) {
  std::vector<Placement> placements = output.placements();
  Layout::Cuts cuts;
  for (Placement& placement : placements) {
    if (placement.kind != Placement::Kind::kSplit) continue;
    const int dim = placement.dim;
    placement = expansion.repeat.count(dim) > 0 ? Placement::Broadcast() : Placement::Split(dim - expansion.new_dims);
    if (placement.kind == Placement::Kind::kSplit) cuts[placement.dim] = PartSizes(output, dim);
  }
  return Layout::Create(x.shape(), x.dtype(), output.mesh(), std::move(placements), std::move(cuts));
}

}  // namespace

absl::StatusOr<LayerOutcome> ExpandRule(const LayerRequest& request) {
  ADJOIN_RETURN_IF_ERROR(CheckOneInput(request));
  ADJOIN_RETURN_IF_ERROR(CheckNoParameters(request.spec));
  const Layout& x = request.input[0];
  if (x.dims() < 1) return AtField("input", InvalidSpec("its input is a single number; there is no batch to keep"));
  auto expansion = ExpansionOf(request.spec.expand(), x.shape());
  if (!expansion.ok()) return AtField("expand", expansion.status());
  auto volume = CheckedVolume(expansion->shape);
  if (!volume.ok()) return AtField("expand", volume.status());
  ADJOIN_ASSIGN_OR_RETURN(const Layout natural, Natural(x, *expansion));
  ADJOIN_ASSIGN_OR_RETURN(Layout output, OutputLayout(request, expansion->shape, natural));
  ADJOIN_ASSIGN_OR_RETURN(Layout read, Repeated(x, *expansion, output));
  Layer spec = request.spec;
  for (int i = 0; i < spec.expand().arg_size(); ++i) spec.mutable_expand()->set_arg(i, expansion->shape[i]);
  return LayerOutcome{
      .spec = std::move(spec), .input = {InputNeed{.layout = std::move(read)}}, .compute = output, .output = output};
}

}  // namespace adjoin
