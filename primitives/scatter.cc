#include "primitives/scatter.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "primitives/redistribute.h"

namespace adjoin {
namespace {

absl::Status RefuseScatter(const Layout& x, const Layout& y, const std::string& why) {
  return absl::InvalidArgumentError(
      absl::StrCat("scatter: ", y.ToString(), " is not ", x.ToString(), " handed out: ", why));
}

}  // namespace

absl::Status Scatter::Check(const Layout& x, const Layout& y) {
  if (x.shape() != y.shape() || x.dtype() != y.dtype()) return RefuseScatter(x, y, "shape or dtype differ");
  if (x.mesh().size() != 1)
    return RefuseScatter(x, y, absl::StrCat("the source lies on ", x.mesh().size(), " ranks, not on one"));
  for (int axis = 0; axis < y.mesh().axes(); ++axis) {
    if (y.mesh().shape()[axis] == 1 || y.placements()[axis].kind == Placement::Kind::kSplit) continue;
    return RefuseScatter(x, y,
                         absl::StrCat("axis ", axis, " is ", y.placements()[axis].ToString(), ", expected a split"));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<Movement>> Scatter::Create(Communicator* communicator, const Layout& x, const Layout& y,
                                                          Movement::Options options) {
  ADJOIN_RETURN_IF_ERROR(Check(x, y));
  return Redistribute::Create(communicator, x, y, std::move(options));
}

}  // namespace adjoin
