#include "primitives/redistribute.h"

#include "absl/strings/str_cat.h"

namespace adjoin {

absl::StatusOr<std::shared_ptr<Movement>> Redistribute::Create(Communicator* communicator, const Layout& from,
                                                               const Layout& to, Movement::Options options) {
  if (from.shape() != to.shape() || from.dtype() != to.dtype()) {
    return absl::InvalidArgumentError(absl::StrCat("operator ", options.id, " (", options.name,
                                                   "): redistribution keeps shape and dtype, but goes from ",
                                                   from.ToString(), " to ", to.ToString()));
  }
  return Movement::Create(communicator, Distribution::Of(from), Distribution::Of(to), std::move(options));
}

}  // namespace adjoin
