#include "base/infrastructure_failure.h"

#include <utility>

#include "absl/strings/cord.h"

namespace adjoin {
namespace {

constexpr char kMark[] = "adjoin/infrastructure_failure";

}  // namespace

absl::Status InfrastructureFailure(absl::Status status) {
  status.SetPayload(kMark, absl::Cord());
  return status;
}

bool IsInfrastructureFailure(const absl::Status& status) { return status.GetPayload(kMark).has_value(); }

}  // namespace adjoin
