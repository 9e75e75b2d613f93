// The program adjoin-coordinator, for the layers whose rules it is given.
//
//   int main(int argc, char** argv) {
//     return adjoin::RunCoordinatorCommand(argc, argv, adjoin::BuiltinLayerRules());     // or with a user's own
//   }
#ifndef ADJOIN_COORDINATOR_COMMAND_H_
#define ADJOIN_COORDINATOR_COMMAND_H_

#include "layers/plan/layer_rule.h"

namespace adjoin {

// The exit code. Call it before any other thread is started: it takes over the signals that stop a program.
int RunCoordinatorCommand(int argc, char** argv, const LayerRules& rules);

}  // namespace adjoin

#endif  // ADJOIN_COORDINATOR_COMMAND_H_
