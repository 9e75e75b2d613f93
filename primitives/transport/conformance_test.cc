// Runs the conformance tests on every transport: the delayed one with several orders of arrival.
#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "primitives/transport/conformance_suite.h"
#include "primitives/transport/transport_ranks.h"

namespace adjoin {
namespace {

ConformanceCase Case(TransportKind kind, const std::string& lane, uint64_t seed) {
  return {.name = absl::StrCat(ToString(kind), "Seed", seed),
          .open = [kind, seed](int n) { return OpenTransports(n, kind, seed); },
          .lane = lane,
          .seed = seed};
}

INSTANTIATE_TEST_SUITE_P(InMemory, ConformanceTest, testing::Values(Case(TransportKind::kInMemory, "memory", 0)),
                         ConformanceCaseName);
INSTANTIATE_TEST_SUITE_P(Delayed, ConformanceTest,
                         testing::Values(Case(TransportKind::kInMemoryDelayed, "memory", 1),
                                         Case(TransportKind::kInMemoryDelayed, "memory", 2),
                                         Case(TransportKind::kInMemoryDelayed, "memory", 3),
                                         Case(TransportKind::kInMemoryDelayed, "memory", 4)),
                         ConformanceCaseName);
INSTANTIATE_TEST_SUITE_P(Device, ConformanceTest, testing::Values(Case(TransportKind::kOnDevice, "of a device", 5)),
                         ConformanceCaseName);
INSTANTIATE_TEST_SUITE_P(Ucx, ConformanceTest,
                         testing::Values(Case(TransportKind::kUcxSharedMemory, "posix/", 0),
                                         Case(TransportKind::kUcxTcp, "tcp/", 0)),
                         ConformanceCaseName);

}  // namespace
}  // namespace adjoin
