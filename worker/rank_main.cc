// adjoin-rank: one rank of one attempt of one job. Started by adjoin-worker.
#include "layers/builtin/builtin_layers.h"
#include "layers/registry.h"
#include "worker/rank/rank_command.h"

int main(int argc, char** argv) { return adjoin::RunRankCommand(argc, argv, adjoin::BuiltinLayers()); }
