// Memory of large tensors that is used again: a tensor of 32 MiB and more gets the memory of one that is gone, where
// one fits, rather than fresh pages, whose first touch costs more than moving a tensor over them does. (Below that size
// the C library uses memory again; from then on its heap keeps what the process has used, instead of giving its end
// back and getting it anew in every step.)
//
//   ReuseTensorMemory();      // once, before the first tensor
//
// It replaces LibTorch's allocator for the CPU, and counts what tensors take. Memory is given away only once
// nothing refers to it any more, so results stay as fresh as ever. It never holds more memory than tensors of that size
// once used at the same time: what does not fit below that goes back to the system, the longest unused first.
#ifndef ADJOIN_PRIMITIVES_TENSOR_MEMORY_H_
#define ADJOIN_PRIMITIVES_TENSOR_MEMORY_H_

#include <cstdint>

namespace adjoin {

inline constexpr int64_t kLargeTensorBytes = int64_t{32} << 20;

// For tensors of `smallest` bytes and more, for the rest of the process; a second call does nothing. Any thread.
void ReuseTensorMemory(int64_t smallest = kLargeTensorBytes);

// Bytes of memory of large tensors, all since ReuseTensorMemory. Any thread.
struct TensorMemoryUse {
  int64_t live = 0;     // in use
  int64_t idle = 0;     // kept for the next tensors
  int64_t highest = 0;  // the largest value of `live`
  int64_t mapped = 0;   // number of times that fresh memory was needed
  // Bytes of all tensors of the process, large and small.
  int64_t tensors = 0;
  int64_t tensors_highest = 0;  // the largest value of `tensors`
};
TensorMemoryUse TensorMemoryInUse();

}  // namespace adjoin

#endif  // ADJOIN_PRIMITIVES_TENSOR_MEMORY_H_
