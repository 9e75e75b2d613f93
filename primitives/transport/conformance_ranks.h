// What the tests of every transport share: ranks, buffers, checks that return a Status, and the transports to run on.
//
//   TEST_P(ConformanceTest, ...) { Run(2, [](Transport& t) -> absl::Status { ... }); }
//   ADJOIN_INSTANTIATE_CONFORMANCE_TESTS
#ifndef ADJOIN_PRIMITIVES_TRANSPORT_CONFORMANCE_RANKS_H_
#define ADJOIN_PRIMITIVES_TRANSPORT_CONFORMANCE_RANKS_H_

#include <algorithm>
#include <cstring>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/deadline.h"
#include "base/status_macros.h"
#include "gtest/gtest.h"
#include "primitives/transport/buffer.h"
#include "primitives/transport/tag.h"
#include "primitives/transport/transport.h"
#include "primitives/transport/transport_ranks.h"

namespace adjoin {

struct ConformanceCase {
  TransportKind kind;
  uint64_t seed;
};

inline void PrintTo(const ConformanceCase& c, std::ostream* out) { *out << c.kind << " with seed " << c.seed; }

inline std::string ConformanceCaseName(const testing::TestParamInfo<ConformanceCase>& info) {
  return absl::StrCat(ToString(info.param.kind), "Seed", info.param.seed);
}

inline Deadline Soon() { return Deadline::After(absl::Seconds(30)); }

inline Buffer BufferOf(std::vector<char>& bytes) {
  Buffer buffer;
  buffer.data = bytes.data();
  buffer.bytes = bytes.size();
  return buffer;
}

template <typename T>
Buffer BufferOf(T& value) {
  Buffer buffer;
  buffer.data = &value;
  buffer.bytes = sizeof(value);
  return buffer;
}

inline Tag MakeTag(int source, int64_t op, int64_t slot = 0) {
  return *Tag::Make({0, op, 0, Direction::kForward, source, slot});
}

// Contents that tell one message from another, and every position within it.
inline std::vector<char> Contents(size_t bytes, uint64_t key) {
  std::vector<char> contents(bytes);
  std::mt19937_64 random(key);
  for (size_t i = 0; i < bytes; i += 8) {
    const uint64_t word = random();
    std::memcpy(contents.data() + i, &word, std::min<size_t>(8, bytes - i));
  }
  return contents;
}

inline absl::Status Expect(bool condition, const std::string& what) {
  return condition ? absl::OkStatus() : absl::InternalError(absl::StrCat("expected: ", what));
}

inline absl::Status ExpectError(const absl::Status& status, absl::StatusCode code,
                                const std::vector<std::string>& words) {
  if (status.code() != code) return absl::InternalError(absl::StrCat("unexpected status: ", status.ToString()));
  for (const std::string& word : words) {
    if (!absl::StrContains(status.message(), word)) {
      return absl::InternalError(absl::StrCat("'", word, "' is not in: ", status.message()));
    }
  }
  return absl::OkStatus();
}

inline absl::Status SendNow(Transport& t, int peer, Tag tag, const Buffer& buffer) {
  ADJOIN_ASSIGN_OR_RETURN(Handle handle, t.StartSend(peer, tag, buffer));
  return t.Wait(handle, Soon());
}

inline absl::Status ReceiveNow(Transport& t, int peer, Tag tag, const Buffer& buffer) {
  ADJOIN_ASSIGN_OR_RETURN(Handle handle, t.StartRecv(peer, tag, buffer));
  return t.Wait(handle, Soon());
}

// One message each way between two ranks: shows that a transport still works.
inline absl::Status PingPong(Transport& t, int64_t op) {
  const int other = 1 - t.rank();
  int64_t out = 100 + t.rank(), in = 0;
  ADJOIN_ASSIGN_OR_RETURN(Handle receive, t.StartRecv(other, MakeTag(other, op), BufferOf(in)));
  ADJOIN_ASSIGN_OR_RETURN(Handle send, t.StartSend(other, MakeTag(t.rank(), op), BufferOf(out)));
  ADJOIN_RETURN_IF_ERROR(t.Wait(send, Soon()));
  ADJOIN_RETURN_IF_ERROR(t.Wait(receive, Soon()));
  return Expect(in == 100 + other, "the other rank's number");
}

class ConformanceTest : public testing::TestWithParam<ConformanceCase> {
 protected:
  void Run(int n, RankFunction fn) {
    const absl::Status status = RunRanks(n, GetParam().kind, GetParam().seed, std::move(fn));
    EXPECT_TRUE(status.ok()) << status << " (seed " << GetParam().seed << ")";
  }
};

// Every transport, the delayed one with several orders of arrival.
#define ADJOIN_INSTANTIATE_CONFORMANCE_TESTS                                                               \
  INSTANTIATE_TEST_SUITE_P(InMemory, ConformanceTest,                                                        \
                           testing::Values(ConformanceCase{TransportKind::kInMemory, 0}), ConformanceCaseName); \
  INSTANTIATE_TEST_SUITE_P(Delayed, ConformanceTest,                                                         \
                           testing::Values(ConformanceCase{TransportKind::kInMemoryDelayed, 1},              \
                                           ConformanceCase{TransportKind::kInMemoryDelayed, 2},              \
                                           ConformanceCase{TransportKind::kInMemoryDelayed, 3},              \
                                           ConformanceCase{TransportKind::kInMemoryDelayed, 4}),             \
                           ConformanceCaseName);                                                             \
  INSTANTIATE_TEST_SUITE_P(Device, ConformanceTest,                                                          \
                           testing::Values(ConformanceCase{TransportKind::kOnDevice, 5}), ConformanceCaseName); \
  INSTANTIATE_TEST_SUITE_P(Ucx, ConformanceTest,                                                             \
                           testing::Values(ConformanceCase{TransportKind::kUcxSharedMemory, 0},              \
                                           ConformanceCase{TransportKind::kUcxTcp, 0}),                      \
                           ConformanceCaseName);

}  // namespace adjoin

#endif  // ADJOIN_PRIMITIVES_TRANSPORT_CONFORMANCE_RANKS_H_
