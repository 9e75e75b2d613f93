// Bytes of tensors, bounded, so that sums and small multiples of them do not overflow.
#ifndef ADJOIN_PLANNER_MEMORY_TENSOR_BYTES_H_
#define ADJOIN_PLANNER_MEMORY_TENSOR_BYTES_H_

#include <algorithm>
#include <cstdint>
#include <vector>

#include "primitives/geometry/dtype.h"

namespace adjoin {

// 16 TiB, more than a rank has: what is larger counts as this.
inline constexpr int64_t kMostBytes = int64_t{1} << 44;

// Returns the product of numbers from 0 on, or kMostBytes where that is less.
inline int64_t BoundedProduct(const std::vector<int64_t>& factors) {
  double product = 1;
  for (const int64_t factor : factors) product *= static_cast<double>(factor);
  return static_cast<int64_t>(std::min(product, static_cast<double>(kMostBytes)));
}

inline int64_t BytesOf(const std::vector<int64_t>& shape, DType dtype) {
  return std::min(kMostBytes, BoundedProduct(shape) * SizeOf(dtype));
}

}  // namespace adjoin

#endif  // ADJOIN_PLANNER_MEMORY_TENSOR_BYTES_H_
