#include "base/hopeless_failure.h"

#include <utility>

#include "absl/strings/cord.h"

namespace adjoin {
namespace {

constexpr char kMark[] = "adjoin/hopeless_failure";

}  // namespace

absl::Status HopelessFailure(absl::Status status) {
  status.SetPayload(kMark, absl::Cord());
  return status;
}

bool IsHopelessFailure(const absl::Status& status) { return status.GetPayload(kMark).has_value(); }

}  // namespace adjoin
