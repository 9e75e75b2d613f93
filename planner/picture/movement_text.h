// What a movement of a plan is called and how much of it the busiest rank sends, for pictures.
//
//   ADJOIN_ASSIGN_OR_RETURN(const MovementFacts facts, FactsOf(op));
//   FactsText(facts);   // "halo exchange · 86.2 KiB in 2 messages"
#ifndef ADJOIN_PLANNER_PICTURE_MOVEMENT_TEXT_H_
#define ADJOIN_PLANNER_PICTURE_MOVEMENT_TEXT_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "proto/plan.pb.h"

namespace adjoin {

struct MovementFacts {
  std::string kind;      // a word of docs/glossary.md: "halo exchange", "repartition", "all-sum-reduce", ...
  int64_t bytes = 0;     // that the busiest rank sends in a step, forward and, where it is on the tape, backward
  int64_t messages = 0;  // likewise the most of any rank
};

// Errors: as MovementEndsOf and TwoWayTrafficOf.
absl::StatusOr<MovementFacts> FactsOf(const OperatorPlan& op);

std::string FactsText(const MovementFacts& facts);

}  // namespace adjoin

#endif  // ADJOIN_PLANNER_PICTURE_MOVEMENT_TEXT_H_
