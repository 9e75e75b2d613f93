// Mistakes that adjoin verify has to find and name: changes of the ranks' side of a comparison.
//
//   VerifyOptions options;
//   LayerRegistry layers = BuiltinLayers();
//   PlantFault("halo", "conv2", options, layers);
#ifndef ADJOIN_TESTS_VERIFY_FAULTS_H_
#define ADJOIN_TESTS_VERIFY_FAULTS_H_

#include <string>

#include "layers/registry.h"
#include "verify/verify.h"

namespace adjoin {

// "halo"    the layer's halo exchange fetches what lies one row further
// "sum"     the sum of the layer's partial products is left out: the first rank's product counts for the whole
// "sync"    the gradients of the layer's parameters are not summed over the ranks
// "bias"    the layer adds its bias twice
// "x"       the gradient of the layer's input is doubled
// Terminates for another fault. `layers` becomes the options' registry.
void PlantFault(const std::string& fault, const std::string& layer, VerifyOptions& options, LayerRegistry& layers);

}  // namespace adjoin

#endif  // ADJOIN_TESTS_VERIFY_FAULTS_H_
