#include "layers/builtin/builtin_serial_functions.h"

namespace adjoin {

#define ADJOIN_LAYER(kind, rule, builder, serial) at::Tensor serial(SerialCall& call);
#include "layers/builtin/builtin_layers.inc"
#undef ADJOIN_LAYER

SerialFunctions BuiltinSerialFunctions() {
  SerialFunctions functions;
#define ADJOIN_LAYER(kind, rule, builder, serial) functions.Register(#kind, serial);
#include "layers/builtin/builtin_layers.inc"
#undef ADJOIN_LAYER
  return functions;
}

}  // namespace adjoin
