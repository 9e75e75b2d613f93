#include "layers/network/operators.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "layers/rules/layout_proto.h"

namespace adjoin {

absl::StatusOr<std::shared_ptr<Movement>> CreateMovement(const OperatorPlan& op, Communicator* communicator,
                                                         bool sends_ahead) {
  const auto with_name = [&op](const absl::Status& status) {
    return absl::Status(status.code(), absl::StrCat("operator ", op.id(), " \"", op.name(), "\": ", status.message()));
  };
  auto ends = DistributionsOf(op);
  if (!ends.ok()) return with_name(ends.status());
  Movement::Options options;
  options.id = op.id();
  options.name = op.name();
  options.fill = op.fill();
  options.differentiable = op.differentiable();
  options.sends_ahead = sends_ahead;
  auto movement = Movement::Create(communicator, ends->from, ends->to, options);
  if (!movement.ok()) return with_name(movement.status());
  return movement;
}

}  // namespace adjoin
