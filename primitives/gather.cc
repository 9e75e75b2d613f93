#include "primitives/gather.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "primitives/redistribute.h"
#include "primitives/scatter.h"

namespace adjoin {

absl::StatusOr<std::shared_ptr<Movement>> Gather::Create(Communicator* communicator, const Layout& x, const Layout& y,
                                                         Movement::Options options) {
  // Splits and owners are their own duals.
  if (const absl::Status status = Scatter::Check(y, x); !status.ok()) {
    return absl::InvalidArgumentError(absl::StrCat("gather, seen from its adjoint: ", status.message()));
  }
  return Redistribute::Create(communicator, x, y, std::move(options));
}

}  // namespace adjoin
