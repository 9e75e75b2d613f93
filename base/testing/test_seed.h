// The seed of a test with random cases, so that a case that failed can be run again.
//
//   const uint64_t seed = TestSeed(1000);  // the same cases in every run
//   const uint64_t seed = TestSeed();      // other cases in every run
//
//   ADJOIN_TEST_SEED=1007 bazel test --test_filter=... //x:y
//
// Both print "ADJOIN_TEST_SEED=1000", which a failed test's output therefore contains. A test whose cases have one seed
// each counts up from it, and prints the seed of a case that fails: that case is the first of a run with this seed.
#ifndef ADJOIN_BASE_TESTING_TEST_SEED_H_
#define ADJOIN_BASE_TESTING_TEST_SEED_H_

#include <cstdint>

namespace adjoin {

// Returns the number in ADJOIN_TEST_SEED, or `otherwise` where it is not set.
uint64_t TestSeed(uint64_t otherwise);
// Returns the number in ADJOIN_TEST_SEED, or a random one of 32 bits where it is not set.
uint64_t TestSeed();

}  // namespace adjoin

#endif  // ADJOIN_BASE_TESTING_TEST_SEED_H_
