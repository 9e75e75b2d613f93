#include "primitives/extreme_reduce.h"

#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "primitives/redistribute.h"

namespace adjoin {
namespace {

absl::StatusOr<Layout> Reduced(const Layout& x, ReduceOp reduce) {
  std::vector<Placement> placements = x.placements();
  for (Placement& placement : placements) {
    if (placement.kind != Placement::Kind::kPartial) continue;
    if (placement.reduce != reduce) {
      return absl::InvalidArgumentError(absl::StrCat("a reduction of ", Placement::Partial(reduce).ToString(),
                                                     " to all cannot start in ", x.ToString()));
    }
    placement = Placement::Broadcast();
  }
  return x.WithPlacements(std::move(placements));
}

absl::StatusOr<std::shared_ptr<Movement>> CreateReduction(Communicator* communicator, const Layout& x, ReduceOp reduce,
                                                          Movement::Options options) {
  ADJOIN_ASSIGN_OR_RETURN(const Layout y, Reduced(x, reduce));
  return Redistribute::Create(communicator, x, y, std::move(options));
}

}  // namespace

absl::StatusOr<Layout> AllMaxReduce::OutputLayout(const Layout& x) { return Reduced(x, ReduceOp::kMax); }
absl::StatusOr<Layout> AllMinReduce::OutputLayout(const Layout& x) { return Reduced(x, ReduceOp::kMin); }

absl::StatusOr<std::shared_ptr<Movement>> AllMaxReduce::Create(Communicator* communicator, const Layout& x,
                                                               Movement::Options options) {
  return CreateReduction(communicator, x, ReduceOp::kMax, std::move(options));
}

absl::StatusOr<std::shared_ptr<Movement>> AllMinReduce::Create(Communicator* communicator, const Layout& x,
                                                               Movement::Options options) {
  return CreateReduction(communicator, x, ReduceOp::kMin, std::move(options));
}

}  // namespace adjoin
