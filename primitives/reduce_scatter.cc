#include "primitives/reduce_scatter.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "primitives/all_gather.h"
#include "primitives/redistribute.h"

namespace adjoin {

absl::StatusOr<std::shared_ptr<Movement>> ReduceScatter::Create(Communicator* communicator, const Layout& x,
                                                                const Layout& y, Movement::Options options) {
  ADJOIN_ASSIGN_OR_RETURN(const Layout x_dual, x.Dual());
  ADJOIN_ASSIGN_OR_RETURN(const Layout y_dual, y.Dual());
  if (const absl::Status status = AllGather::Check(y_dual, x_dual); !status.ok()) {
    return absl::InvalidArgumentError(absl::StrCat("reduce-scatter, seen from its adjoint: ", status.message()));
  }
  return Redistribute::Create(communicator, x, y, std::move(options));
}

}  // namespace adjoin
