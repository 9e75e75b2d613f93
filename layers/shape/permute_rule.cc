// torch.permute: the dims in another order, in any layout, without moving anything: the same axes cut the same dims at
// the same positions, under their new numbers.
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "layers/rules/layer_rule.h"
#include "layers/rules/rule_checks.h"
#include "layers/rules/spec_error.h"
#include "primitives/geometry/layout.h"

namespace adjoin {
namespace {

// Which dim of the input each dim of the output is.
absl::StatusOr<std::vector<int>> OrderOf(const Shape& spec, int dims) {
  std::vector<int> order;
  std::vector<bool> seen(dims);
  for (int i = 0; i < spec.arg_size(); ++i) {
    ADJOIN_ASSIGN_OR_RETURN(const int dim, CheckedDim(absl::StrCat("permute.arg[", i, "]"), spec.arg(i), dims));
    if (seen[dim]) return AtField(absl::StrCat("permute.arg[", i, "]"), InvalidSpec("dim ", dim, " is named twice"));
    seen[dim] = true;
    order.push_back(dim);
  }
  if (static_cast<int>(order.size()) == dims) return order;
  return AtField("permute.arg", InvalidSpec("permute names ", order.size(), " dims of an input of ", dims,
                                            "; write all of them in their new order, the batch too"));
}

absl::StatusOr<Layout> Permuted(const Layout& x, const std::vector<int>& order) {
  std::vector<int64_t> shape;
  std::vector<int> place(order.size());  // by dim of the input: its dim in the output
  Layout::Cuts cuts;
  for (int dim = 0; dim < x.dims(); ++dim) {
    shape.push_back(x.shape()[order[dim]]);
    place[order[dim]] = dim;
    if (!x.AxesOf(order[dim]).empty()) cuts[dim] = PartSizes(x, order[dim]);
  }
  std::vector<Placement> placements = x.placements();
  for (Placement& placement : placements) {
    if (placement.kind == Placement::Kind::kSplit) placement.dim = place[placement.dim];
  }
  return Layout::Create(std::move(shape), x.dtype(), x.mesh(), std::move(placements), std::move(cuts));
}

}  // namespace

absl::StatusOr<LayerOutcome> PermuteRule(const LayerRequest& request) {
  ADJOIN_RETURN_IF_ERROR(CheckOneInput(request));
  ADJOIN_RETURN_IF_ERROR(CheckNoParameters(request.spec));
  const Layout& x = request.input[0];
  ADJOIN_ASSIGN_OR_RETURN(const std::vector<int> order, OrderOf(request.spec.permute(), x.dims()));
  ADJOIN_RETURN_IF_ERROR(CheckedVolume(x.shape()).status());
  ADJOIN_ASSIGN_OR_RETURN(Layout compute, Permuted(x, order));
  ADJOIN_ASSIGN_OR_RETURN(Layout output, OutputLayout(request, compute.shape(), compute));
  Layer spec = request.spec;
  for (int i = 0; i < x.dims(); ++i) spec.mutable_permute()->set_arg(i, order[i]);
  return LayerOutcome{
      .spec = std::move(spec), .input = {InputNeed{}}, .compute = std::move(compute), .output = std::move(output)};
}

}  // namespace adjoin
