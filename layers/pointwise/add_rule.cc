// The sum, or the product, of all inputs, of any layouts. Their shapes are one, or broadcast as in PyTorch.
//
// It is computed in the layout of the first input that has the result's shape; the others are moved there. An input
// that is broadcast is moved as it is, and repeated on the ranks. Where all are broadcast, it is computed in the
// result's layout. The rule of the kinds "add" and "multiply".
#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "layers/rules/broadcast_layout.h"
#include "layers/rules/layer_kind.h"
#include "layers/rules/layer_rule.h"
#include "layers/rules/rule_checks.h"
#include "layers/rules/spec_error.h"

namespace adjoin {
namespace {

using Shape64 = std::vector<int64_t>;

bool Broadcast(const Shape64& a, const Shape64& b) {
  for (auto i = a.rbegin(), j = b.rbegin(); i != a.rend() && j != b.rend(); ++i, ++j) {
    if (*i != *j && *i != 1 && *j != 1) return false;
  }
  return true;
}

absl::StatusOr<Shape64> CommonShape(const LayerRequest& request) {
  Shape64 shape;
  for (size_t i = 0; i < request.input.size(); ++i) {
    const Shape64& own = request.input[i].shape();
    for (size_t other = 0; other < i; ++other) {
      if (Broadcast(own, request.input[other].shape())) continue;
      return AtField(
          absl::StrCat("input[", i, "]"),
          InvalidSpec(KindOf(request.spec),
                      " reads inputs of one shape, or of shapes that, aligned at the last"
                      " dim, have equal extents or 1; input ",
                      other, " is ", ShapeText(request.input[other].shape()), ", input ", i, " is ", ShapeText(own)));
    }
    if (own.size() > shape.size()) shape.insert(shape.begin(), own.size() - shape.size(), 1);
    for (size_t dim = 0; dim < own.size(); ++dim) {
      int64_t& extent = shape[shape.size() - own.size() + dim];
      if (own[dim] != 1) extent = own[dim];
    }
  }
  // Its shape may fit by accident, for one size of the batch.
  for (size_t i = 0; i < request.input.size(); ++i) {
    const Shape64& own = request.input[i].shape();
    if (own.size() == shape.size() || own.empty() || own[0] == 1) continue;
    return AtField(
        absl::StrCat("input[", i, "]"),
        InvalidSpec("input ", i, " is ", ShapeText(own), " and the result ", ShapeText(shape),
                    ": aligned at the"
                    " last dim, as in PyTorch, its batch would be beside dim ",
                    shape.size() - own.size(), "; give it as many dims before, by a reshape with extents of 1"));
  }
  return shape;
}

}  // namespace

absl::StatusOr<LayerOutcome> AddRule(const LayerRequest& request) {
  ADJOIN_RETURN_IF_ERROR(CheckFloatInputs(request));
  ADJOIN_RETURN_IF_ERROR(CheckNoParameters(request.spec));
  ADJOIN_ASSIGN_OR_RETURN(const Shape64 shape, CommonShape(request));
  ADJOIN_ASSIGN_OR_RETURN(const int64_t volume, CheckedVolume(shape));
  const auto whole = std::find_if(request.input.begin(), request.input.end(),
                                  [&](const Layout& input) { return input.shape() == shape; });
  const bool repeated = whole == request.input.end();
  ADJOIN_ASSIGN_OR_RETURN(const Layout natural, repeated ? RepeatedTo(request.input[0], shape) : *whole);
  ADJOIN_ASSIGN_OR_RETURN(Layout output, OutputLayout(request, shape, natural));
  Layout compute = repeated ? output : natural;
  std::vector<InputNeed> needs;
  for (const Layout& input : request.input) {
    ADJOIN_ASSIGN_OR_RETURN(Layout read, ReadWhenRepeated(input, compute));
    needs.push_back({.layout = std::move(read)});
  }
  const double flops = static_cast<double>(volume) * static_cast<double>(needs.size() - 1);
  return LayerOutcome{.spec = request.spec,
                      .input = std::move(needs),
                      .compute = std::move(compute),
                      .output = std::move(output),
                      .flops = flops};
}

}  // namespace adjoin
