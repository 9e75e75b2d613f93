// The tests that every transport must pass. They are in conformance_messages.cc and conformance_waits.cc; a test
// program names the transports on which they run:
//
//   absl::StatusOr<std::vector<std::unique_ptr<Transport>>> OpenRanks(int n) { ... }   // 0 to n-1, not connected
//
//   INSTANTIATE_TEST_SUITE_P(Mine, ConformanceTest,
//                            testing::Values(ConformanceCase{
//                                .name = "Mine", .open = OpenRanks, .lane = "mine", .seed = 1}),
//                            ConformanceCaseName);
//
// The rest of this header is what the tests share: buffers, tags, and checks that return a Status.
#ifndef ADJOIN_PRIMITIVES_TRANSPORT_CONFORMANCE_SUITE_H_
#define ADJOIN_PRIMITIVES_TRANSPORT_CONFORMANCE_SUITE_H_

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <ostream>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/deadline.h"
#include "base/status_macros.h"
#include "gtest/gtest.h"
#include "primitives/transport/buffer.h"
#include "primitives/transport/rank_threads.h"
#include "primitives/transport/tag.h"
#include "primitives/transport/transport.h"

namespace adjoin {

struct ConformanceCase {
  std::string name;  // letters and digits: the end of the tests' names
  // Returns the transports of ranks 0 to n-1 of this process, not connected. kNotFound skips the test: this machine has
  // not what they need.
  std::function<absl::StatusOr<std::vector<std::unique_ptr<Transport>>>(int n)> open;
  std::string lane;   // a part of what Describe returns for another rank
  uint64_t seed = 0;  // drives the random orders of the tests
};

inline void PrintTo(const ConformanceCase& c, std::ostream* out) { *out << c.name << " with seed " << c.seed; }

inline std::string ConformanceCaseName(const testing::TestParamInfo<ConformanceCase>& info) { return info.param.name; }

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
  return *Tag::Make(
      {.communicator = 0, .op = op, .generation = 0, .direction = Direction::kForward, .source = source, .slot = slot});
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
  // Runs `fn` on n connected ranks, each on a thread of its own; the test fails with the error that came first.
  void Run(int n, std::function<absl::Status(Transport&)> fn) {
    auto transports = GetParam().open(n);
    if (absl::IsNotFound(transports.status())) GTEST_SKIP() << transports.status().message();
    ASSERT_TRUE(transports.ok()) << transports.status();
    int first = -1;
    const std::vector<absl::Status> statuses =
        RunConnectedRankThreads(*std::move(transports), std::move(fn), absl::Seconds(60), &first);
    if (first >= 0) ADD_FAILURE() << "rank " << first << ": " << statuses[first] << " (seed " << GetParam().seed << ")";
  }
};

}  // namespace adjoin

#endif  // ADJOIN_PRIMITIVES_TRANSPORT_CONFORMANCE_SUITE_H_
