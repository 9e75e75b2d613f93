// adjoin-coordinator, which plans jobs that have the layer.
#include "coordinator/command.h"
#include "examples/custom_layer/sharpen_rule.h"

int main(int argc, char** argv) { return adjoin::RunCoordinatorCommand(argc, argv, adjoin::RulesWithSharpen()); }
