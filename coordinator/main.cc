// adjoin-coordinator: admits jobs, assigns their ranks to worker daemons and answers users.
#include "coordinator/command.h"
#include "layers/builtin/builtin_rules.h"

int main(int argc, char** argv) { return adjoin::RunCoordinatorCommand(argc, argv, adjoin::BuiltinLayerRules()); }
