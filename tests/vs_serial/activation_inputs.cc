#include "tests/vs_serial/activation_inputs.h"

#include <ATen/TensorOperators.h>

namespace adjoin {

at::Tensor Within(ActivationDomain domain, const at::Tensor& x) {
  switch (domain) {
    case ActivationDomain::kAll: return x;
    case ActivationDomain::kPositive: return x.abs() + 0.2;
    case ActivationDomain::kAboveOne: return x.abs() + 1.2;
    case ActivationDomain::kWithinOne: return x.tanh() * 0.95;
    case ActivationDomain::kFromZeroToOne: return x.sigmoid() * 0.9 + 0.05;
  }
  return x;
}

}  // namespace adjoin
