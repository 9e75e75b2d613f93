#include "layers/norm/norm_sums.h"

#include <set>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "layers/rules/layout_like.h"
#include "primitives/geometry/dtype.h"

namespace adjoin {
namespace {

constexpr int kBatchDim = 0;

absl::StatusOr<Layout> GroupSums(const Layout& x, int64_t groups, Placement along) {
  const int64_t size = x.shape()[kChannelDim] / groups;
  bool between_groups = true;
  for (int64_t boundary : x.Boundaries(kChannelDim)) between_groups = between_groups && boundary % size == 0;
  Layout::Cuts cuts;
  std::vector<Placement> placements = x.placements();
  for (Placement& placement : placements) {
    if (placement == Placement::Split(kBatchDim)) {
      cuts[0] = PartSizes(x, kBatchDim);
    } else if (placement == Placement::Split(kChannelDim) && between_groups) {
      cuts[1] = PartSizes(x, kChannelDim);
    } else if (placement.kind == Placement::Kind::kSplit) {
      placement = along;
    }
  }
  if (cuts.count(1) > 0) {
    for (int64_t& part : cuts[1]) part /= size;
  }
  return Layout::Create({x.shape()[kBatchDim], groups}, DType::kFloat64, x.mesh(), std::move(placements),
                        std::move(cuts));
}

}  // namespace

bool NormalisesGroups(const Norm& norm) { return norm.kind() == "group" || norm.kind() == "instance"; }

int64_t GroupsOf(const Norm& norm, const Layout& x) {
  return norm.kind() == "group" ? static_cast<int64_t>(norm.groups()) : x.shape()[kChannelDim];
}

absl::StatusOr<Layout> NormSums(const Layout& x, const Norm& norm, Placement along) {
  if (NormalisesGroups(norm)) return GroupSums(x, GroupsOf(norm, x), along);
  const std::set<int> dims(norm.dim().begin(), norm.dim().end());
  std::vector<int64_t> shape = x.shape();
  for (int dim : dims) shape[dim] = 1;
  ADJOIN_ASSIGN_OR_RETURN(const Layout sums, LayoutLike(x, std::move(shape), {}, dims, along));
  return sums.WithDType(DType::kFloat64);
}

}  // namespace adjoin
