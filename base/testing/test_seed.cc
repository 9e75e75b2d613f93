#include "base/testing/test_seed.h"

#include <cstdio>
#include <cstdlib>
#include <random>

namespace adjoin {

uint64_t TestSeed(uint64_t otherwise) {
  const char* text = std::getenv("ADJOIN_TEST_SEED");
  const uint64_t seed = text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
  std::printf("ADJOIN_TEST_SEED=%llu\n", static_cast<unsigned long long>(seed));
  std::fflush(stdout);  // before a crash, or a child process that writes too
  return seed;
}

uint64_t TestSeed() { return TestSeed(std::random_device()()); }

}  // namespace adjoin
