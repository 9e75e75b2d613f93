#include "primitives/broadcast.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "primitives/redistribute.h"

namespace adjoin {
namespace {

absl::Status RefuseBroadcast(const Layout& x, const Layout& y, const std::string& why) {
  return absl::InvalidArgumentError(
      absl::StrCat("broadcast: ", y.ToString(), " is not ", x.ToString(), " repeated along mesh axes: ", why));
}

}  // namespace

absl::Status Broadcast::Check(const Layout& x, const Layout& y) {
  if (x.shape() != y.shape() || x.dtype() != y.dtype()) return RefuseBroadcast(x, y, "shape or dtype differ");
  const bool owner = x.mesh().size() == 1;
  if (!owner && x.mesh().axes() != y.mesh().axes())
    return RefuseBroadcast(x, y, "the meshes have different numbers of axes");
  for (int axis = 0; axis < y.mesh().axes(); ++axis) {
    const int64_t y_size = y.mesh().shape()[axis];
    const int64_t x_size = owner ? 1 : x.mesh().shape()[axis];
    if (y_size == 1 && x_size == 1) continue;
    const Placement placement = y.placements()[axis];
    if (x_size == 1) {
      if (placement.kind == Placement::Kind::kBroadcast) continue;
      return RefuseBroadcast(x, y, absl::StrCat("axis ", axis, " is ", placement.ToString(), ", expected B"));
    }
    if (x_size != y_size || x.placements()[axis] != placement) {
      return RefuseBroadcast(
          x, y, absl::StrCat("axis ", axis, " has size ", x_size, " in the source, where only size 1 is ", "repeated"));
    }
  }
  for (int dim = 0; dim < x.dims(); ++dim) {
    if (x.Boundaries(dim) != y.Boundaries(dim))
      return RefuseBroadcast(x, y, absl::StrCat("dim ", dim, " is cut differently"));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<Movement>> Broadcast::Create(Communicator* communicator, const Layout& x,
                                                            const Layout& y, Movement::Options options) {
  ADJOIN_RETURN_IF_ERROR(Check(x, y));
  return Redistribute::Create(communicator, x, y, std::move(options));
}

}  // namespace adjoin
