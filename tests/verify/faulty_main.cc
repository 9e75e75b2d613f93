// adjoin-verify with a mistake, which ADJOIN_FAULT and ADJOIN_FAULTY_LAYER (set by the build) name.
#include "layers/builtin/builtin_layers.h"
#include "layers/registry.h"
#include "tests/verify/faults.h"
#include "verify/command.h"

int main(int argc, char** argv) {
  adjoin::VerifyOptions options;
  adjoin::LayerRegistry layers = adjoin::BuiltinLayers();
  adjoin::PlantFault(ADJOIN_FAULT, ADJOIN_FAULTY_LAYER, options, layers);
  return adjoin::RunVerifyCommand(argc, argv, options);
}
