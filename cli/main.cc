// adjoin: submits jobs, shows them and fetches their results.
#include "base/logging.h"
#include "cli/command_line.h"
#include "layers/builtin/builtin_rules.h"

int main(int argc, char** argv) {
  adjoin::InitLogging("adjoin", adjoin::LogFormat::kText, /*quiet=*/true);
  return adjoin::RunAdjoin(argc, argv, adjoin::BuiltinLayerRules());
}
