// Checks what must hold in a fuzz target: prints what does not, and ends the process, which the fuzzer takes for a
// finding.
//
//   FuzzCheck(slots >= 0, "worker-1 has negative slots");
#ifndef ADJOIN_TESTS_FUZZ_CHECK_H_
#define ADJOIN_TESTS_FUZZ_CHECK_H_

#include <cstdlib>
#include <iostream>
#include <string>

namespace adjoin {

inline void FuzzCheck(bool holds, const std::string& what) {
  if (holds) return;
  std::cerr << "does not hold: " << what << std::endl;
  abort();
}

}  // namespace adjoin

#endif  // ADJOIN_TESTS_FUZZ_CHECK_H_
