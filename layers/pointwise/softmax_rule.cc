// torch.nn.Softmax and LogSoftmax over one dim, in any layout, the dim itself cut or not.
//
// Where the dim is whole on each rank, nothing moves. Else a largest element and a sum per row go over the ranks that
// share the row: the maximum only shifts the exponents, so no gradient passes through it.
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "layers/pointwise/softmax_roles.h"
#include "layers/rules/layer_rule.h"
#include "layers/rules/rule_checks.h"
#include "primitives/geometry/layout.h"

namespace adjoin {
namespace {

// One number per row of `dim`, cut as the rows are; `along` on the axes that cut the rows themselves.
absl::StatusOr<Layout> PerRow(const Layout& x, int dim, Placement along) {
  std::vector<int64_t> shape = x.shape();
  shape[dim] = 1;
  std::vector<Placement> placements = x.placements();
  for (Placement& placement : placements) {
    if (placement == Placement::Split(dim)) placement = along;
  }
  Layout::Cuts cuts;
  for (int other = 0; other < x.dims(); ++other) {
    if (other != dim && !x.AxesOf(other).empty()) cuts[other] = PartSizes(x, other);
  }
  return Layout::Create(std::move(shape), x.dtype(), x.mesh(), std::move(placements), std::move(cuts));
}

}  // namespace

absl::StatusOr<LayerOutcome> SoftmaxRule(const LayerRequest& request) {
  ADJOIN_RETURN_IF_ERROR(CheckOneFloatInput(request));
  ADJOIN_RETURN_IF_ERROR(CheckNoParameters(request.spec));
  const Layout& x = request.input[0];
  ADJOIN_ASSIGN_OR_RETURN(const int dim, CheckedDim("softmax.dim", request.spec.softmax().dim(), x.dims()));
  ADJOIN_ASSIGN_OR_RETURN(const int64_t volume, CheckedVolume(x.shape()));
  ADJOIN_ASSIGN_OR_RETURN(Layout output, OutputLayout(request, x.shape(), x));
  std::vector<MovementNeed> movements;
  if (x.Parts(dim) > 1) {
    ADJOIN_ASSIGN_OR_RETURN(const Layout largest, PerRow(x, dim, Placement::Partial(ReduceOp::kMax)));
    ADJOIN_ASSIGN_OR_RETURN(const Layout partial, PerRow(x, dim, Placement::Partial()));
    ADJOIN_ASSIGN_OR_RETURN(const Layout whole, PerRow(x, dim, Placement::Broadcast()));
    movements = {{.role = kRoleMax, .from = largest, .to = whole, .constant = true},
                 {.role = kRoleSum, .from = partial, .to = whole}};
  }
  Layer spec = request.spec;
  spec.mutable_softmax()->set_dim(dim);
  // Compare, subtract, exponentiate, add up, divide.
  return LayerOutcome{.spec = std::move(spec),
                      .input = {InputNeed{}},
                      .compute = x,
                      .output = std::move(output),
                      .flops = 5.0 * static_cast<double>(volume),
                      .movement = std::move(movements)};
}

}  // namespace adjoin
