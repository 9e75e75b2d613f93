// torch.sum, torch.mean, torch.var, torch.amax and torch.amin on whole tensors.
#include <vector>

#include <ATen/ops/amax.h>
#include <ATen/ops/amin.h>
#include <ATen/ops/mean.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/var.h>
#include <torch/types.h>

#include "layers/serial_functions.h"

namespace adjoin {

torch::Tensor SerialReduce(SerialCall& call) {
  const Reduce& spec = call.spec().reduce();
  const std::vector<int64_t> dims(spec.dim().begin(), spec.dim().end());
  if (spec.kind() == "sum") return at::sum(call.input(), dims, spec.keepdim());
  if (spec.kind() == "mean") return at::mean(call.input(), dims, spec.keepdim());
  if (spec.kind() == "amax") return at::amax(call.input(), dims, spec.keepdim());
  if (spec.kind() == "amin") return at::amin(call.input(), dims, spec.keepdim());
  TORCH_CHECK(spec.kind() == "var", "reduce \"", spec.kind(), "\" is not known");
  const double correction = spec.has_correction() ? spec.correction() : 1;
  // LibTorch 1 takes a whole number only: rescaled.
  double count = 1;
  for (int64_t dim : dims) count *= static_cast<double>(call.input().size(dim));
  return at::var(call.input(), dims, /*unbiased=*/false, spec.keepdim()) * (count / (count - correction));
}

}  // namespace adjoin
