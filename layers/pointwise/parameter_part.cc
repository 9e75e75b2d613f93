#include "layers/pointwise/parameter_part.h"

#include <utility>

#include "base/status_macros.h"
#include "layers/rules/broadcast_layout.h"

namespace adjoin {

std::vector<int64_t> UsedShape(const OwnParameter& spec) {
  const auto& extents = spec.length().empty() ? spec.shape() : spec.length();
  return {extents.begin(), extents.end()};
}

absl::StatusOr<Layout> ParameterUsed(const OwnParameter& spec, const Layout& compute, DType dtype) {
  return ReadWhenRepeated(Layout::Owner(UsedShape(spec), dtype, 0), compute);
}

absl::StatusOr<Layout> ParameterNeeded(const OwnParameter& spec, const Layout& compute, DType dtype) {
  ADJOIN_ASSIGN_OR_RETURN(const Layout used, ParameterUsed(spec, compute, dtype));
  std::vector<int64_t> shape(spec.shape().begin(), spec.shape().end());
  std::vector<Placement> placements = used.placements();
  Layout::Cuts cuts;
  for (Placement& placement : placements) {
    if (placement.kind != Placement::Kind::kSplit) continue;
    if (shape[placement.dim] == used.shape()[placement.dim]) {
      cuts[placement.dim] = PartSizes(used, placement.dim);
    } else {
      placement = Placement::Broadcast();
    }
  }
  return Layout::Create(std::move(shape), dtype, used.mesh(), std::move(placements), std::move(cuts));
}

}  // namespace adjoin
