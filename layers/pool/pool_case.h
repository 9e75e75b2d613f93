// Poolings of every mode, drawn at random, and LibTorch's answer for them.
//
//   PoolCase c = RandomPoolCase(random, PoolKind::kAverage, /*spatial=*/2);
//   at::Tensor x = PoolData(random, c, {2, 3, ...c.extent}).requires_grad_();
//   at::Tensor y = SerialPool(x, c);
#ifndef ADJOIN_LAYERS_POOL_POOL_CASE_H_
#define ADJOIN_LAYERS_POOL_POOL_CASE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "tests/vs_serial/random_jobs.h"

namespace adjoin {

enum class PoolKind { kMax, kAverage, kPower, kAdaptiveMax, kAdaptiveAverage };

struct PoolCase {
  PoolKind kind = PoolKind::kMax;
  std::vector<int64_t> kernel, stride, dilation, pad_lo, pad_hi, extent;  // of the spatial dims
  std::vector<int64_t> size;                                              // adaptive
  bool ceil_mode = false;
  std::optional<bool> include_pad;
  std::optional<int64_t> divisor;
  double lp = 0;

  bool IsMax() const { return kind == PoolKind::kMax || kind == PoolKind::kAdaptiveMax; }
  bool IsAdaptive() const { return kind == PoolKind::kAdaptiveMax || kind == PoolKind::kAdaptiveAverage; }
  bool IsSymmetric() const { return pad_lo == pad_hi; }
  // "pool { ... }".
  std::string Text(bool return_indices = false) const;
};

// Padding alike on both sides where LibTorch has no other, or where `symmetric`.
PoolCase RandomPoolCase(RandomJobs& random, PoolKind kind, int spatial, bool symmetric = false);

// Float64: small integers, so that there are many ties, or numbers above 0 where a norm needs them.
at::Tensor PoolData(RandomJobs& random, const PoolCase& c, const std::vector<int64_t>& shape);

at::Tensor SerialPool(const at::Tensor& x, const PoolCase& c);
// Values and indices. The case is symmetric and a maximum.
std::pair<at::Tensor, at::Tensor> SerialMaxPoolWithIndices(const at::Tensor& x, const PoolCase& c);

}  // namespace adjoin

#endif  // ADJOIN_LAYERS_POOL_POOL_CASE_H_
