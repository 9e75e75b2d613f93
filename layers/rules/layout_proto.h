// Geometry to and from the plan's messages. The one place where a plan's operator becomes geometry: the planner counts
// bytes from it and ranks build their movements from it.
//
//   LayoutPlan message = ToProto(layout);
//   ADJOIN_ASSIGN_OR_RETURN(Layout same, LayoutFromProto(message));
//   ADJOIN_ASSIGN_OR_RETURN(OperatorEnds ends, DistributionsOf(op));
//   ADJOIN_ASSIGN_OR_RETURN(auto movement, Movement::Create(&communicator, ends.from, ends.to, {.id = op.id(), ...}));
#ifndef ADJOIN_LAYERS_RULES_LAYOUT_PROTO_H_
#define ADJOIN_LAYERS_RULES_LAYOUT_PROTO_H_

#include "absl/status/statusor.h"
#include "primitives/geometry/distribution.h"
#include "primitives/geometry/layout.h"
#include "primitives/geometry/reading.h"
#include "primitives/geometry/traffic.h"
#include "proto/plan.pb.h"

namespace adjoin {

// Equal layouts give equal messages: cuts are written only where they are not the balanced ones.
LayoutPlan ToProto(const Layout& layout);
// Errors: kInvalidArgument where the message is not a layout (unknown dtype or placement; as Mesh::Create and
// Layout::Create).
absl::StatusOr<Layout> LayoutFromProto(const LayoutPlan& message);

ReadingPlan ToProto(int dim, const Reading& reading);
// What outputs `y` read of inputs `x`, both of global shape, in the message's dim.
// Errors: kInvalidArgument (no kind; an unknown boundary or mode; a dim that they do not have; as Create of each kind).
absl::StatusOr<Reading> ReadingFromProto(const ReadingPlan& message, const Layout& x, const Layout& y);

// What an operator moves, as layouts and readings.
// Errors: kInvalidArgument for two readings in one dim; as LayoutFromProto and ReadingFromProto.
absl::StatusOr<MovementEnds> MovementEndsOf(const OperatorPlan& op);

// Where an operator takes its cells from and where it puts them.
struct OperatorEnds {
  Distribution from;
  Distribution to;
};
// A halo exchange where the operator has readings, else a redistribution.
// Errors: as MovementEndsOf and Distribution::Reads.
absl::StatusOr<OperatorEnds> DistributionsOf(const OperatorPlan& op);

}  // namespace adjoin

#endif  // ADJOIN_LAYERS_RULES_LAYOUT_PROTO_H_
