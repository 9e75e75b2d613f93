// Counts what a thread takes from the heap: everything that is linked and asks malloc, LibTorch included.
//
//   MemoryCount count;
//   torch::Tensor y = movement->Forward(x);
//   count.highest();          // bytes that were allocated meanwhile, as many as lived at the same time
//
// A test that links this has its own malloc family in front of the C library's (operator new uses it). A block belongs
// to the count under which its thread asked for it, whichever thread gives it back; blocks from before a count are not
// its. Bytes are those asked for. Memory that somebody maps from the system himself is not counted: UCX does so for the
// buffers that messages arrive in.
//
// Not under sanitizers, which have their own malloc: MemoryCount::kWorks is false then. One count per thread at a time.
#ifndef ADJOIN_TESTS_ADJOINT_COUNTED_MEMORY_H_
#define ADJOIN_TESTS_ADJOINT_COUNTED_MEMORY_H_

#include <cstdint>

namespace adjoin {

class MemoryCount {
 public:
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  static constexpr bool kWorks = false;
#else
  static constexpr bool kWorks = true;
#endif

  // Counts what this thread allocates, until it is destroyed on the same thread.
  MemoryCount();
  ~MemoryCount();
  MemoryCount(const MemoryCount&) = delete;
  MemoryCount& operator=(const MemoryCount&) = delete;

  int64_t live() const;         // bytes allocated and not given back
  int64_t highest() const;      // the largest value of live()
  int64_t allocations() const;  // number of blocks, those given back included

 private:
  friend class Ledger;

  // Guarded by the ledger's mutex.
  int64_t live_ = 0;
  int64_t highest_ = 0;
  int64_t allocations_ = 0;
};

}  // namespace adjoin

#endif  // ADJOIN_TESTS_ADJOINT_COUNTED_MEMORY_H_
