// Numbers to try an element-wise function with.
//
//   const Tensor x = Within(DomainOf("acosh"), at::randn({2, 3}));   // above 1
#ifndef ADJOIN_TESTS_VS_SERIAL_ACTIVATION_INPUTS_H_
#define ADJOIN_TESTS_VS_SERIAL_ACTIVATION_INPUTS_H_

#include <ATen/core/Tensor.h>

#include "layers/pointwise/activation_functions.h"

namespace adjoin {

// Numbers within `domain`, and some way from its ends, made from the real numbers `x` one by one.
at::Tensor Within(ActivationDomain domain, const at::Tensor& x);

}  // namespace adjoin

#endif  // ADJOIN_TESTS_VS_SERIAL_ACTIVATION_INPUTS_H_
