// adjoin-coordinator, which fills the emptiest node first.
#include "coordinator/command.h"
#include "examples/assignment_policy/emptiest_first.h"
#include "layers/builtin/builtin_rules.h"

int main(int argc, char** argv) {
  return adjoin::RunCoordinatorCommand(argc, argv, adjoin::BuiltinLayerRules(), &adjoin::AssignEmptiestFirst);
}
