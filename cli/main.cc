// adjoin: submits jobs, shows them and fetches their results.
#include "cli/command_line.h"
#include "layers/builtin/builtin_rules.h"

int main(int argc, char** argv) { return adjoin::RunAdjoin(argc, argv, adjoin::BuiltinLayerRules()); }
