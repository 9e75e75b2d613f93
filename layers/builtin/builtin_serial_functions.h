// The serial functions of every kind of layer that comes with Adjoin.
#ifndef ADJOIN_LAYERS_BUILTIN_BUILTIN_SERIAL_FUNCTIONS_H_
#define ADJOIN_LAYERS_BUILTIN_BUILTIN_SERIAL_FUNCTIONS_H_

#include "layers/serial_functions.h"

namespace adjoin {

SerialFunctions BuiltinSerialFunctions();

}  // namespace adjoin

#endif  // ADJOIN_LAYERS_BUILTIN_BUILTIN_SERIAL_FUNCTIONS_H_
