// The builders of every kind of layer that comes with Adjoin.
#ifndef ADJOIN_LAYERS_BUILTIN_BUILTIN_LAYERS_H_
#define ADJOIN_LAYERS_BUILTIN_BUILTIN_LAYERS_H_

#include "layers/registry.h"

namespace adjoin {

LayerRegistry BuiltinLayers();

}  // namespace adjoin

#endif  // ADJOIN_LAYERS_BUILTIN_BUILTIN_LAYERS_H_
