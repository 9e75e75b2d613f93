#include "layers/pointwise/serial_random.h"

#include <cmath>

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include "primitives/random/philox.h"

namespace adjoin {
namespace {

using at::Tensor;

// A step has room for this many layers.
constexpr uint64_t kLayersOfAStep = 65536;

double UniformOf(const SerialPlace& place, uint64_t purpose, int64_t index) {
  const uint64_t step = static_cast<uint64_t>(place.step) * kLayersOfAStep + static_cast<uint64_t>(place.layer);
  return UniformAt(place.seed, purpose, step, static_cast<uint64_t>(index));
}

// Box and Muller: numbers 2 k and 2 k + 1 are a pair.
double NormalOf(const SerialPlace& place, uint64_t purpose, int64_t index) {
  const double u = UniformOf(place, purpose, index / 2 * 2);
  const double v = UniformOf(place, purpose, index / 2 * 2 + 1);
  const double radius = std::sqrt(-2 * std::log1p(-u));
  return radius * (index % 2 == 0 ? std::cos(2 * M_PI * v) : std::sin(2 * M_PI * v));
}

}  // namespace

Tensor SerialDropoutFactors(const SerialPlace& place, const std::vector<int64_t>& shape, double p) {
  Tensor factors = at::zeros(shape, at::kDouble);
  double* out = factors.data_ptr<double>();
  for (int64_t index = 0; index < factors.numel(); ++index) {
    if (UniformOf(place, kPurposeDropout, index) >= p) out[index] = 1 / (1 - p);
  }
  return factors;
}

Tensor SerialDropout(SerialCall& call) {
  const Dropout& spec = call.spec().dropout();
  const Tensor& x = call.input();
  std::vector<int64_t> shape = x.sizes().vec();
  if (spec.channel()) shape.resize(2);
  Tensor factors = SerialDropoutFactors(call.place(), shape, spec.p());
  while (factors.dim() < x.dim()) factors = factors.unsqueeze(-1);
  return x * factors;
}

Tensor SerialNoise(SerialCall& call) {
  const Noise& spec = call.spec().noise();
  const Tensor& x = call.input();
  Tensor noise = at::empty(x.sizes(), at::kDouble);
  double* out = noise.data_ptr<double>();
  for (int64_t index = 0; index < noise.numel(); ++index) {
    out[index] = spec.std() * NormalOf(call.place(), kPurposeNoise, index);
  }
  return spec.multiplicative() ? x * (1 + noise) : x + noise;
}

}  // namespace adjoin
