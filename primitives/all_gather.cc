#include "primitives/all_gather.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "primitives/redistribute.h"

namespace adjoin {
namespace {

using Kind = Placement::Kind;

absl::Status RefuseGather(const Layout& x, const Layout& y, const std::string& why) {
  return absl::InvalidArgumentError(
      absl::StrCat("all-gather: ", y.ToString(), " is not ", x.ToString(), " gathered along mesh axes: ", why));
}

// True where y's parts of `dim` are x's, put together along the axes that split it in x and not in y.
absl::Status CheckDim(const Layout& x, const Layout& y, int dim) {
  int gathered = -1;
  for (int axis : x.AxesOf(dim)) {
    if (x.mesh().shape()[axis] == 1) continue;
    if (y.placements()[axis].kind == Kind::kBroadcast) {
      gathered = axis;
    } else if (gathered >= 0) {
      return RefuseGather(x, y,
                          absl::StrCat("axis ", axis, " still splits dim ", dim, " inside axis ", gathered,
                                       ", along which it is gathered"));
    }
  }
  const int64_t factor = x.Parts(dim) / y.Parts(dim);
  for (int64_t part = 0; part <= y.Parts(dim); ++part) {
    if (y.Boundaries(dim)[part] != x.Boundaries(dim)[part * factor]) {
      return RefuseGather(x, y, absl::StrCat("dim ", dim, " is cut differently"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status AllGather::Check(const Layout& x, const Layout& y) {
  if (x.shape() != y.shape() || x.dtype() != y.dtype()) return RefuseGather(x, y, "shape or dtype differ");
  if (x.mesh() != y.mesh()) return RefuseGather(x, y, "the meshes differ");
  for (int axis = 0; axis < x.mesh().axes(); ++axis) {
    const Placement from = x.placements()[axis];
    const Placement to = y.placements()[axis];
    if (x.mesh().shape()[axis] == 1 || from == to) continue;
    if (from.kind == Kind::kSplit && to.kind == Kind::kBroadcast) continue;
    return RefuseGather(x, y,
                        absl::StrCat("axis ", axis, " goes from ", from.ToString(), " to ", to.ToString(),
                                     "; it may stay as it is or go from a split to B"));
  }
  for (int dim = 0; dim < x.dims(); ++dim) ADJOIN_RETURN_IF_ERROR(CheckDim(x, y, dim));
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<Movement>> AllGather::Create(Communicator* communicator, const Layout& x,
                                                            const Layout& y, Movement::Options options) {
  ADJOIN_RETURN_IF_ERROR(Check(x, y));
  return Redistribute::Create(communicator, x, y, std::move(options));
}

}  // namespace adjoin
