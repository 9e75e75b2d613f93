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
  return x.WithPlacements(std::move(placements));
}

absl::StatusOr<std::shared_ptr<Movement>> AllSumReduce::Create(Communicator* communicator, const Layout& x,
                                                               Movement::Options options) {
  ADJOIN_ASSIGN_OR_RETURN(const Layout y, OutputLayout(x));
  return Redistribute::Create(communicator, x, y, std::move(options));
}

}  // namespace adjoin
