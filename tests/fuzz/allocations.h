// How much memory is in use through operator new, and its peak: that a reader allocates no more than its input
// deserves.
//
//   const AllocationPeak peak;
//   Read(input);
//   FuzzCheck(peak.bytes() <= 8 * size + kBuffers, "what a header claims is not allocated");
//
// Replaces operator new and delete of the whole program. One thread.
#ifndef ADJOIN_TESTS_FUZZ_ALLOCATIONS_H_
#define ADJOIN_TESTS_FUZZ_ALLOCATIONS_H_

#include <cstdint>

namespace adjoin {

class AllocationPeak {
 public:
  AllocationPeak();
  // The most that was in use at once since the construction of this, beyond what was in use then. Only the newest
  // counts.
  int64_t bytes() const;

 private:
  const int64_t before_;
};

}  // namespace adjoin

#endif  // ADJOIN_TESTS_FUZZ_ALLOCATIONS_H_
