// The program adjoin-coordinator.
//
//   int main(int argc, char** argv) { return adjoin::RunCoordinatorCommand(argc, argv, adjoin::BuiltinLayerRules()); }
//
// A program with layers of a user's own passes their rules too, one with another assignment policy passes that
// (docs/extending/assignment-policy.md).
#ifndef ADJOIN_COORDINATOR_COMMAND_H_
#define ADJOIN_COORDINATOR_COMMAND_H_

#include "coordinator/placement/assignment.h"
#include "layers/rules/layer_rule.h"

namespace adjoin {

// Returns the exit code. Call it first thing in main, with main's own arguments and before any other thread is started:
// it takes over the signals that stop a program, and it starts this same program again for the processes that make
// plans with `rules` (coordinator/planning/planner_process.h).
int RunCoordinatorCommand(int argc, char** argv, const LayerRules& rules,
                          const AssignmentPolicy& assignment = &AssignCompactly);

}  // namespace adjoin

#endif  // ADJOIN_COORDINATOR_COMMAND_H_
