// The serial functions of normalisations: of the whole batch, of groups of channels, of single channels, of the last dims.
#ifndef ADJOIN_VERIFY_SERIAL_NORM_H_
#define ADJOIN_VERIFY_SERIAL_NORM_H_

#include <torch/torch.h>

#include "verify/serial_functions.h"

namespace adjoin {

torch::Tensor SerialNorm(SerialCall& call);

}  // namespace adjoin

#endif  // ADJOIN_VERIFY_SERIAL_NORM_H_
