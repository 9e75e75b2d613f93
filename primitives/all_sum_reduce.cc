#include "primitives/all_sum_reduce.h"

#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "primitives/redistribute.h"

namespace adjoin {

absl::StatusOr<Layout> AllSumReduce::OutputLayout(const Layout& x) {
  std::vector<Placement> placements = x.placements();
  for (Placement& placement : placements) {
    if (placement == Placement::Partial()) placement = Placement::Broadcast();
  }
  Layout::Cuts cuts;
  for (int dim = 0; dim < x.dims(); ++dim) {
    if (x.AxesOf(dim).empty()) continue;
    const std::vector<int64_t>& boundaries = x.Boundaries(dim);
    for (std::size_t part = 0; part + 1 < boundaries.size(); ++part) {
      cuts[dim].push_back(boundaries[part + 1] - boundaries[part]);
    }
  }
  return Layout::Create(x.shape(), x.dtype(), x.mesh(), std::move(placements), std::move(cuts));
}

absl::StatusOr<std::shared_ptr<Movement>> AllSumReduce::Create(Communicator* communicator, const Layout& x,
                                                               Movement::Options options) {
  ADJOIN_ASSIGN_OR_RETURN(const Layout y, OutputLayout(x));
  return Redistribute::Create(communicator, x, y, std::move(options));
}

}  // namespace adjoin
