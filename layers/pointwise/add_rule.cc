// The sum, or the product, of all inputs, which have one shape and any layouts.
//
// It is computed in the layout of the first input; the others are moved there.
// The rule of the kinds "add" and "multiply".
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "layers/rules/layer_kind.h"
#include "layers/rules/layer_rule.h"
#include "layers/rules/rule_checks.h"
#include "layers/rules/spec_error.h"

namespace adjoin {

absl::StatusOr<LayerOutcome> AddRule(const LayerRequest& request) {
  ADJOIN_RETURN_IF_ERROR(CheckFloatInputs(request));
  ADJOIN_RETURN_IF_ERROR(CheckNoParameters(request.spec));
  const Layout& x = request.input[0];
  for (size_t i = 1; i < request.input.size(); ++i) {
    if (request.input[i].shape() == x.shape()) continue;
    return AtField(absl::StrCat("input[", i, "]"),
                   InvalidSpec(KindOf(request.spec), " reads inputs of one shape; input 0 is ", ShapeText(x.shape()),
                               ", input ", i, " is ", ShapeText(request.input[i].shape())));
  }
  ADJOIN_ASSIGN_OR_RETURN(const int64_t volume, CheckedVolume(x.shape()));
  ADJOIN_ASSIGN_OR_RETURN(Layout output, OutputLayout(request, x.shape(), x));
  std::vector<InputNeed> needs(request.input.size(), InputNeed{.layout = x});
  const double flops = static_cast<double>(volume) * static_cast<double>(needs.size() - 1);
  return LayerOutcome{
      .spec = request.spec, .input = std::move(needs), .compute = x, .output = std::move(output), .flops = flops};
}

}  // namespace adjoin
