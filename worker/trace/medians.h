// What is usual among times that were measured, and which messages are alike.
#ifndef ADJOIN_WORKER_TRACE_MEDIANS_H_
#define ADJOIN_WORKER_TRACE_MEDIANS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace adjoin {

// The lower one of two in the middle: of two ranks the slower one is slow. `values` is not empty.
inline double LowerMedian(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>((values.size() - 1) / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// Messages of one bucket have about the same size: 0 for none, else the number of binary digits of their bytes.
inline int SizeBucket(int64_t bytes) {
  int bucket = 0;
  for (; bytes > 0; bytes /= 2) ++bucket;
  return bucket;
}

}  // namespace adjoin

#endif  // ADJOIN_WORKER_TRACE_MEDIANS_H_
