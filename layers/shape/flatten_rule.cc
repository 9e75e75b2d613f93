// torch.flatten: merges neighbouring dims into one.
//
// Nothing moves where each part is one run of the merged dim, as where only the first of the merged dims with more than
// one element is cut. Elsewhere x is moved first: it is a reshape.
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "layers/rules/layer_rule.h"
#include "layers/rules/rule_checks.h"
#include "layers/rules/spec_error.h"
#include "layers/shape/reshape_rule.h"
#include "primitives/geometry/layout.h"

namespace adjoin {
namespace {

struct Merge {
  int first = 1;
  int last = 1;
};

absl::StatusOr<Merge> MergeOf(const Shape& spec, int dims) {
  if (spec.arg_size() > 2) {
    return AtField("arg", InvalidSpec("flatten has at most two arguments, the first and the last dim; ",
                                      spec.arg_size(), " are given"));
  }
  int64_t first = spec.arg_size() > 0 ? spec.arg(0) : 1;
  int64_t last = spec.arg_size() > 1 ? spec.arg(1) : -1;
  for (int64_t* dim : {&first, &last}) {
    if (*dim < -dims || *dim >= dims) {
      return AtField("arg", InvalidSpec("flatten names dim ", *dim, " of an input of ", dims, " dims; ", -dims, " to ",
                                        dims - 1, " are possible"));
    }
    if (*dim < 0) *dim += dims;
  }
  if (first > last) return AtField("arg", InvalidSpec("flatten's first dim ", first, " comes after its last, ", last));
  return Merge{static_cast<int>(first), static_cast<int>(last)};
}

}  // namespace

absl::StatusOr<LayerOutcome> FlattenRule(const LayerRequest& request) {
  ADJOIN_RETURN_IF_ERROR(CheckOneInput(request));
  ADJOIN_RETURN_IF_ERROR(CheckNoParameters(request.spec));
  const Layout& x = request.input[0];
  if (x.dims() < 1) return AtField("input", InvalidSpec("its input is a single number; there is nothing to flatten"));
  auto merge = MergeOf(request.spec.flatten(), x.dims());
  if (!merge.ok()) return AtField("flatten", merge.status());
  ADJOIN_RETURN_IF_ERROR(CheckedVolume(x.shape()).status());
  std::vector<int64_t> shape(x.shape().begin(), x.shape().begin() + merge->first + 1);
  for (int dim = merge->first + 1; dim < x.dims(); ++dim) {
    if (dim <= merge->last) {
      shape.back() *= x.shape()[dim];
    } else {
      shape.push_back(x.shape()[dim]);
    }
  }
  Layer spec = request.spec;
  spec.mutable_flatten()->clear_arg();
  spec.mutable_flatten()->add_arg(merge->first);
  spec.mutable_flatten()->add_arg(merge->last);
  auto outcome = ReshapeTo(request, shape, std::move(spec));
  if (!outcome.ok() && FieldOf(outcome.status()).empty()) return AtField("flatten", outcome.status());
  return outcome;
}

}  // namespace adjoin
