#include "primitives/exact_arithmetic.h"

#include <ATen/Context.h>

namespace adjoin {

void UseExactArithmetic() {
  at::Context& context = at::globalContext();
  context.setAllowTF32CuBLAS(false);
  context.setAllowTF32CuDNN(false);
  context.setBenchmarkCuDNN(false);
  context.setDeterministicCuDNN(true);
}

}  // namespace adjoin
