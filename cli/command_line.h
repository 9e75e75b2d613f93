// The program adjoin: submits jobs, shows them and fetches their results, for the layers whose rules it is given.
//
//   int main(int argc, char** argv) {
//     return adjoin::RunAdjoin(argc, argv, adjoin::BuiltinLayerRules());     // or with a user's own, for `adjoin plan`
//   }
#ifndef ADJOIN_CLI_COMMAND_LINE_H_
#define ADJOIN_CLI_COMMAND_LINE_H_

#include "layers/rules/layer_rule.h"

namespace adjoin {

// Returns the exit code. Log lines of this process are warnings and errors, on stderr, from then on.
int RunAdjoin(int argc, char** argv, const LayerRules& rules);

}  // namespace adjoin

#endif  // ADJOIN_CLI_COMMAND_LINE_H_
