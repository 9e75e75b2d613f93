// Normalisations on whole tensors, as PyTorch defines them.

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/batch_norm.h>
#include <ATen/ops/group_norm.h>
#include <ATen/ops/instance_norm.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/sqrt.h>

#include "layers/serial_functions.h"

namespace adjoin {
namespace {

using at::Tensor;

double Eps(const Norm& spec, double otherwise) { return spec.has_eps() ? spec.eps() : otherwise; }

// Away from PyTorch's ones and zeros, with which a mistake might not show.
Tensor Weight(SerialCall& call, const std::vector<int64_t>& shape, bool affine) {
  return affine ? call.Parameter("weight", shape, 0.5, 1) : Tensor();
}
Tensor Bias(SerialCall& call, const std::vector<int64_t>& shape, bool affine) {
  return affine ? call.Parameter("bias", shape, 0.5) : Tensor();
}

Tensor Batch(SerialCall& call) {
  const Norm& spec = call.spec().norm();
  const std::vector<int64_t> channels = {call.input().size(1)};
  const bool affine = !spec.has_affine() || spec.affine();
  const Tensor weight = Weight(call, channels, affine);
  const Tensor bias = Bias(call, channels, affine);
  const Tensor mean = call.Buffer("running_mean", channels, 0.5, 0);
  const Tensor var = call.Buffer("running_var", channels, 0.5, 1);
  call.Counter("num_batches_tracked").add_(1);
  return at::batch_norm(call.input(), weight, bias, mean, var, /*training=*/true,
                        spec.has_momentum() ? spec.momentum() : 0.1, Eps(spec, 1e-5), /*cudnn_enabled=*/false);
}

Tensor Group(SerialCall& call) {
  const Norm& spec = call.spec().norm();
  const std::vector<int64_t> channels = {call.input().size(1)};
  const bool affine = !spec.has_affine() || spec.affine();
  const Tensor weight = Weight(call, channels, affine);
  return at::group_norm(call.input(), spec.groups(), weight, Bias(call, channels, affine), Eps(spec, 1e-5),
                        /*cudnn_enabled=*/false);
}

Tensor Instance(SerialCall& call) {
  const Norm& spec = call.spec().norm();
  const std::vector<int64_t> channels = {call.input().size(1)};
  const Tensor weight = Weight(call, channels, spec.affine());
  return at::instance_norm(call.input(), weight, Bias(call, channels, spec.affine()), {}, {},
                           /*use_input_stats=*/true, /*momentum=*/0, Eps(spec, 1e-5), /*cudnn_enabled=*/false);
}

// The dims that "layer" and "rms" normalise over: as many as are named, the last ones.
std::vector<int64_t> LastDims(const SerialCall& call) {
  const int count = std::max(1, call.spec().norm().dim_size());
  const auto sizes = call.input().sizes();
  return {sizes.end() - count, sizes.end()};
}

Tensor LastDimsNorm(SerialCall& call) {
  const Norm& spec = call.spec().norm();
  const std::vector<int64_t> shape = LastDims(call);
  const bool affine = !spec.has_affine() || spec.affine();
  const Tensor weight = Weight(call, shape, affine);
  return at::layer_norm(call.input(), shape, weight, Bias(call, shape, affine), Eps(spec, 1e-5),
                        /*cudnn_enable=*/false);
}

// torch.nn.RMSNorm's formula, which this LibTorch does not have.
Tensor RootMeanSquare(SerialCall& call) {
  const Norm& spec = call.spec().norm();
  const std::vector<int64_t> shape = LastDims(call);
  std::vector<int64_t> dims;
  for (int64_t dim = -static_cast<int64_t>(shape.size()); dim < 0; ++dim) dims.push_back(dim);
  const Tensor mean_square = call.input().square().mean(dims, /*keepdim=*/true);
  const double eps = Eps(spec, call.input().scalar_type() == at::kFloat ? std::numeric_limits<float>::epsilon()
                                                                        : std::numeric_limits<double>::epsilon());
  const Tensor normalised = call.input() / at::sqrt(mean_square + eps);
  return !spec.has_affine() || spec.affine() ? normalised * Weight(call, shape, true) : normalised;
}

}  // namespace

Tensor SerialNorm(SerialCall& call) {
  const std::string& kind = call.spec().norm().kind();
  if (kind == "batch") return Batch(call);
  if (kind == "group") return Group(call);
  if (kind == "instance") return Instance(call);
  if (kind == "layer") return LastDimsNorm(call);
  TORCH_CHECK(kind == "rms", "normalisation of kind \"", kind, "\" has no serial function");
  return RootMeanSquare(call);
}

}  // namespace adjoin
