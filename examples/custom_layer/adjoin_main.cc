// `adjoin`, whose `plan` and `verify` know the layer.
#include "cli/command_line.h"
#include "examples/custom_layer/sharpen_rule.h"

int main(int argc, char** argv) { return adjoin::RunAdjoin(argc, argv, adjoin::RulesWithSharpen()); }
