// adjoin-rank, which runs the layer. The stock adjoin-worker starts it: --rank-binary.
#include "examples/custom_layer/sharpen.h"
#include "examples/custom_layer/sharpen_rule.h"
#include "layers/builtin/builtin_layers.h"
#include "layers/registry.h"
#include "worker/rank/rank_command.h"

int main(int argc, char** argv) {
  adjoin::LayerRegistry layers = adjoin::BuiltinLayers();
  layers.Register("sharpen", adjoin::BuildSharpen);
  return adjoin::RunRankCommand(argc, argv, layers, adjoin::RulesWithSharpen());
}
