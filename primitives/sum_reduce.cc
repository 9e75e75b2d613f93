#include "primitives/sum_reduce.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "primitives/broadcast.h"
#include "primitives/redistribute.h"

namespace adjoin {

absl::StatusOr<std::shared_ptr<Movement>> SumReduce::Create(Communicator* communicator, const Layout& x,
                                                            const Layout& y, Movement::Options options) {
  ADJOIN_ASSIGN_OR_RETURN(const Layout x_dual, x.Dual());
  ADJOIN_ASSIGN_OR_RETURN(const Layout y_dual, y.Dual());
  if (const absl::Status status = Broadcast::Check(y_dual, x_dual); !status.ok()) {
    return absl::InvalidArgumentError(absl::StrCat("sum-reduce, seen from its adjoint: ", status.message()));
  }
  return Redistribute::Create(communicator, x, y, std::move(options));
}

}  // namespace adjoin
