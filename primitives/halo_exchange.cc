#include "primitives/halo_exchange.h"

#include "absl/strings/str_cat.h"

namespace adjoin {

absl::StatusOr<std::shared_ptr<Movement>> HaloExchange::Create(Communicator* communicator, const Layout& x,
                                                               const std::map<int, Reading>& readings, const Layout& y,
                                                               Movement::Options options) {
  const absl::StatusOr<Distribution> to = Distribution::Reads(x, readings, y);
  if (!to.ok()) {
    return absl::Status(to.status().code(),
                        absl::StrCat("operator ", options.id, " (", options.name, "): ", to.status().message()));
  }
  return Movement::Create(communicator, Distribution::Of(x), *to, std::move(options));
}

}  // namespace adjoin
