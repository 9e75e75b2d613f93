#include "primitives/send_receive.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "primitives/geometry/movement_plan.h"
#include "primitives/redistribute.h"
#include "primitives/status_exception.h"

namespace adjoin {

absl::StatusOr<std::shared_ptr<Movement>> SendReceive::Create(Communicator* communicator, const Layout& x,
                                                              const Layout& y, Movement::Options options) {
  for (const Layout* side : {&x, &y}) {
    if (side->mesh().size() == 1) continue;
    return absl::InvalidArgumentError(absl::StrCat("send-receive from ", x.ToString(), " to ", y.ToString(), ": ",
                                                   side->ToString(), " lies on ", side->mesh().size(),
                                                   " ranks, expected one"));
  }
  return Redistribute::Create(communicator, x, y, std::move(options));
}

namespace {

// True where this rank gives away cells.
bool IsSource(const MovementPlan& plan) {
  if (!plan.direct().sends().empty()) return true;
  for (const CollectiveGroup& group : plan.groups()) {
    if (group.ranks[0] == plan.rank()) return true;
  }
  return false;
}

}  // namespace

at::Tensor SendReceive::Move(Movement& movement, at::Tensor& x, Tape& tape) {
  at::Tensor y = movement.Apply(x, tape);
  if (!IsSource(movement.forward_plan())) return y;
  try {
    x.zero_();
  } catch (const c10::Error& error) {
    throw StatusException(absl::InvalidArgumentError(
        absl::StrCat("operator ", movement.options().id, " (", movement.options().name,
                     "): the source of a move cannot be cleared: ", error.what_without_backtrace())));
  }
  return y;
}

}  // namespace adjoin
