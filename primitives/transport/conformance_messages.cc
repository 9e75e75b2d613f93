// The conformance tests of messages: which ones arrive, where and in which order.
#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/deadline.h"
#include "base/status_macros.h"
#include "gtest/gtest.h"
#include "primitives/transport/buffer.h"
#include "primitives/transport/conformance_suite.h"
#include "primitives/transport/tag.h"
#include "primitives/transport/transport.h"

namespace adjoin {
namespace {

TEST_P(ConformanceTest, KnowsItsRankAndItsLanes) {
  const std::string expected = GetParam().lane;
  Run(3, [&expected](Transport& t) -> absl::Status {
    ADJOIN_RETURN_IF_ERROR(Expect(t.size() == 3 && t.rank() >= 0 && t.rank() < 3, "rank and size"));
    const int other = (t.rank() + 1) % 3;
    const std::string lane = t.Describe(other);
    return Expect(absl::StrContains(lane, expected), absl::StrCat("'", expected, "' in the lane ", lane));
  });
}

TEST_P(ConformanceTest, MovesOneByteTo8MiB) {
  Run(2, [](Transport& t) -> absl::Status {
    std::vector<size_t> sizes = {1, 7, 100, 1000, 8191, 8192, 8193, 32768, 65537, 1 << 20, (8 << 20) - 1, 8 << 20};
    for (size_t i = 0; i < sizes.size(); ++i) {
      const int64_t op = static_cast<int64_t>(i);
      std::vector<char> expected = Contents(sizes[i], i), bytes = expected, back(sizes[i]);
      if (t.rank() == 0) {
        ADJOIN_ASSIGN_OR_RETURN(Handle receive, t.StartRecv(1, MakeTag(1, op), BufferOf(back)));
        ADJOIN_RETURN_IF_ERROR(SendNow(t, 1, MakeTag(0, op), BufferOf(bytes)));
        ADJOIN_RETURN_IF_ERROR(t.Wait(receive, Soon()));
      } else {
        ADJOIN_RETURN_IF_ERROR(ReceiveNow(t, 0, MakeTag(0, op), BufferOf(back)));
        ADJOIN_RETURN_IF_ERROR(SendNow(t, 0, MakeTag(1, op), BufferOf(back)));
      }
      ADJOIN_RETURN_IF_ERROR(Expect(back == expected, absl::StrCat("the same ", sizes[i], " bytes")));
    }
    return absl::OkStatus();
  });
}

TEST_P(ConformanceTest, MatchesReceivesPostedAfterTheMessageCame) {
  Run(2, [](Transport& t) -> absl::Status {
    for (size_t bytes : {size_t{8}, size_t{5000}, size_t{300000}}) {
      const int64_t op = static_cast<int64_t>(bytes % 1000);
      std::vector<char> data = Contents(bytes, bytes), in(bytes);
      if (t.rank() == 0) {
        // The second message tells that the first one, which was sent before, is there or on its way.
        ADJOIN_ASSIGN_OR_RETURN(Handle first, t.StartSend(1, MakeTag(0, op), BufferOf(data)));
        ADJOIN_ASSIGN_OR_RETURN(Handle second, t.StartSend(1, MakeTag(0, op + 1000), Buffer()));
        ADJOIN_RETURN_IF_ERROR(t.Wait(first, Soon()));
        ADJOIN_RETURN_IF_ERROR(t.Wait(second, Soon()));
      } else {
        ADJOIN_RETURN_IF_ERROR(ReceiveNow(t, 0, MakeTag(0, op + 1000), Buffer()));
        ADJOIN_RETURN_IF_ERROR(ReceiveNow(t, 0, MakeTag(0, op), BufferOf(in)));
        ADJOIN_RETURN_IF_ERROR(Expect(in == data, "the message that came before its receive"));
      }
    }
    return absl::OkStatus();
  });
}

TEST_P(ConformanceTest, MatchesTagsExactlyInAnyOrderOfWaits) {
  const uint64_t seed = GetParam().seed;
  Run(2, [seed](Transport& t) -> absl::Status {
    const int count = 200, other = 1 - t.rank();
    std::mt19937_64 random(seed * 2 + t.rank());
    std::vector<int> order(count);
    for (int i = 0; i < count; ++i) order[i] = i;
    std::vector<int64_t> out(count), in(count, -1);
    std::vector<Handle> sends(count), receives(count);
    // Fields differ one at a time, so that a tag with a field left out would match wrongly.
    auto tag = [](int source, int i) {
      return *Tag::Make({.communicator = i % 2,
                         .op = i / 2 % 5,
                         .generation = i / 10 % 2,
                         .direction = static_cast<Direction>(i / 20 % 2),
                         .source = source,
                         .slot = i / 40});
    };
    std::shuffle(order.begin(), order.end(), random);
    for (int i : order) {
      ADJOIN_ASSIGN_OR_RETURN(receives[i], t.StartRecv(other, tag(other, i), BufferOf(in[i])));
    }
    std::shuffle(order.begin(), order.end(), random);
    for (int i : order) {
      out[i] = 1000 * t.rank() + i;
      ADJOIN_ASSIGN_OR_RETURN(sends[i], t.StartSend(other, tag(t.rank(), i), BufferOf(out[i])));
    }
    std::shuffle(order.begin(), order.end(), random);
    for (int i : order) {
      ADJOIN_RETURN_IF_ERROR(t.Wait(receives[i], Soon()));
      ADJOIN_RETURN_IF_ERROR(Expect(in[i] == 1000 * other + i, absl::StrCat("message ", i, ", not ", in[i])));
    }
    for (int i : order) ADJOIN_RETURN_IF_ERROR(t.Wait(sends[i], Soon()));
    return absl::OkStatus();
  });
}

TEST_P(ConformanceTest, MatchesEqualTagsInTheOrderSent) {
  Run(2, [](Transport& t) -> absl::Status {
    const int count = 100;
    std::vector<std::vector<char>> messages;
    for (int i = 0; i < count; ++i) messages.push_back(Contents(i % 7 == 0 ? 40000 : 16, i));
    std::vector<Handle> handles;
    std::vector<std::vector<char>> in(count);
    for (int i = 0; i < count; ++i) {
      in[i].resize(messages[i].size());
      absl::StatusOr<Handle> handle = t.rank() == 0 ? t.StartSend(1, MakeTag(0, 3), BufferOf(messages[i]))
                                                    : t.StartRecv(0, MakeTag(0, 3), BufferOf(in[i]));
      ADJOIN_RETURN_IF_ERROR(handle.status());
      handles.push_back(*handle);
    }
    for (int i = count - 1; i >= 0; --i) ADJOIN_RETURN_IF_ERROR(t.Wait(handles[i], Soon()));
    return Expect(t.rank() == 0 || in == messages, "the messages in the order sent");
  });
}

TEST_P(ConformanceTest, MovesMessagesOfZeroBytes) {
  Run(2, [](Transport& t) -> absl::Status {
    for (int i = 0; i < 20; ++i) {
      if (t.rank() == 0) {
        ADJOIN_RETURN_IF_ERROR(SendNow(t, 1, MakeTag(0, i), Buffer()));
        ADJOIN_RETURN_IF_ERROR(ReceiveNow(t, 1, MakeTag(1, i), Buffer()));
      } else {
        ADJOIN_RETURN_IF_ERROR(ReceiveNow(t, 0, MakeTag(0, i), Buffer()));
        ADJOIN_RETURN_IF_ERROR(SendNow(t, 0, MakeTag(1, i), Buffer()));
      }
    }
    return absl::OkStatus();
  });
}

TEST_P(ConformanceTest, SendsToItself) {
  for (int n : {1, 2}) {
    Run(n, [](Transport& t) -> absl::Status {
      for (size_t bytes : {size_t{0}, size_t{8}, size_t{1} << 20}) {
        std::vector<char> out = Contents(bytes, bytes), in(bytes);
        const Tag tag = MakeTag(t.rank(), static_cast<int64_t>(bytes % 1000));
        ADJOIN_ASSIGN_OR_RETURN(Handle before, t.StartRecv(t.rank(), tag, BufferOf(in)));
        ADJOIN_RETURN_IF_ERROR(SendNow(t, t.rank(), tag, BufferOf(out)));
        ADJOIN_RETURN_IF_ERROR(t.Wait(before, Soon()));
        ADJOIN_RETURN_IF_ERROR(Expect(in == out, "its own message"));
        std::fill(in.begin(), in.end(), 0);
        ADJOIN_ASSIGN_OR_RETURN(Handle send, t.StartSend(t.rank(), tag, BufferOf(out)));
        ADJOIN_RETURN_IF_ERROR(ReceiveNow(t, t.rank(), tag, BufferOf(in)));
        ADJOIN_RETURN_IF_ERROR(t.Wait(send, Soon()));
        ADJOIN_RETURN_IF_ERROR(Expect(in == out, "its own message, received later"));
      }
      return Expect(t.BytesSent() == 0, "no bytes counted for what a rank sends itself");
    });
  }
}

TEST_P(ConformanceTest, ReceivesFromManyRanks) {
  Run(4, [](Transport& t) -> absl::Status {
    const int rounds = 50;
    if (t.rank() > 0) {
      for (int64_t i = 0; i < rounds; ++i) {
        int64_t value = t.rank() * 1000 + i;
        ADJOIN_RETURN_IF_ERROR(SendNow(t, 0, MakeTag(t.rank(), 1), BufferOf(value)));
      }
      return absl::OkStatus();
    }
    for (int64_t i = 0; i < rounds; ++i) {
      for (int source = 3; source > 0; --source) {
        int64_t value = -1;
        ADJOIN_RETURN_IF_ERROR(ReceiveNow(t, source, MakeTag(source, 1), BufferOf(value)));
        ADJOIN_RETURN_IF_ERROR(Expect(value == source * 1000 + i, absl::StrCat("message ", i, " of rank ", source)));
      }
    }
    return absl::OkStatus();
  });
}

TEST_P(ConformanceTest, MovesRandomMessagesBetweenAllRanks) {
  const uint64_t seed = GetParam().seed + 17;
  Run(4, [seed](Transport& t) -> absl::Status {
    std::mt19937_64 plan(seed);  // the same plan on every rank
    std::mt19937_64 own(seed * 31 + t.rank());
    for (int round = 0; round < 5; ++round) {
      struct Message {
        int from, to;
        uint64_t key;
        size_t bytes;
        Tag tag;
        std::vector<char> memory;
        Handle handle;
      };
      std::vector<Message> mine;
      for (int i = 0; i < 60; ++i) {
        const int from = plan() % 4, to = plan() % 4;
        const uint64_t key = plan();
        const size_t bytes = plan() % (size_t{1} << (plan() % 18));
        if (from == t.rank()) mine.push_back({from, to, key, bytes, MakeTag(from, round, i), Contents(bytes, key), {}});
        if (to == t.rank()) mine.push_back({from, to, key, bytes, MakeTag(from, round, i), {}, {}});
      }
      // A message to itself is in the list twice: first the send, then the receive.
      for (size_t i = 0; i < mine.size(); ++i) {
        Message& m = mine[i];
        const bool send = m.from == t.rank() && (m.memory.size() == m.bytes) && !(i > 0 && mine[i - 1].tag == m.tag);
        if (!send) m.memory.assign(m.bytes, 0);
        absl::StatusOr<Handle> handle =
            send ? t.StartSend(m.to, m.tag, BufferOf(m.memory)) : t.StartRecv(m.from, m.tag, BufferOf(m.memory));
        ADJOIN_RETURN_IF_ERROR(handle.status());
        m.handle = *handle;
      }
      std::vector<size_t> order(mine.size());
      for (size_t i = 0; i < order.size(); ++i) order[i] = i;
      std::shuffle(order.begin(), order.end(), own);
      for (size_t i : order) {
        ADJOIN_RETURN_IF_ERROR(t.Wait(mine[i].handle, Soon()));
        ADJOIN_RETURN_IF_ERROR(Expect(mine[i].memory == Contents(mine[i].bytes, mine[i].key),
                                      absl::StrCat("message ", mine[i].tag.ToString(), ", seed ", seed)));
      }
    }
    return absl::OkStatus();
  });
}

TEST_P(ConformanceTest, RefusesAnotherLengthAndNamesBothEnds) {
  struct Lengths {
    size_t sent, expected;
  };
  const std::vector<Lengths> cases = {{8, 16},     {16, 8},     {0, 4},           {4, 0},
                                      {8, 100000}, {100000, 8}, {500000, 300000}, {300000, 500000}};
  for (bool posted_before : {true, false}) {
    Run(2, [&cases, posted_before](Transport& t) -> absl::Status {
      for (size_t i = 0; i < cases.size(); ++i) {
        const auto [sent, expected] = cases[i];
        std::vector<char> out = Contents(sent, i), in(expected + 8, 'x');
        const int64_t op = static_cast<int64_t>(i), go = op + 100;
        if (t.rank() == 0) {
          if (posted_before) ADJOIN_RETURN_IF_ERROR(ReceiveNow(t, 1, MakeTag(1, go), Buffer()));
          // It may be over only once there is a receive.
          ADJOIN_ASSIGN_OR_RETURN(Handle send, t.StartSend(1, MakeTag(0, op), BufferOf(out)));
          if (!posted_before) ADJOIN_RETURN_IF_ERROR(SendNow(t, 1, MakeTag(0, go), Buffer()));
          ADJOIN_RETURN_IF_ERROR(t.Wait(send, Soon()));
        } else {
          if (!posted_before) ADJOIN_RETURN_IF_ERROR(ReceiveNow(t, 0, MakeTag(0, go), Buffer()));
          Buffer buffer = BufferOf(in);
          buffer.bytes = expected;
          ADJOIN_ASSIGN_OR_RETURN(Handle receive, t.StartRecv(0, MakeTag(0, op), buffer));
          if (posted_before) ADJOIN_RETURN_IF_ERROR(SendNow(t, 0, MakeTag(1, go), Buffer()));
          ADJOIN_RETURN_IF_ERROR(ExpectError(t.Wait(receive, Soon()), absl::StatusCode::kDataLoss,
                                             {absl::StrCat("rank 0 sent ", sent, " bytes to rank 1"),
                                              absl::StrCat("expected ", expected), absl::StrCat("operator ", op)}));
          ADJOIN_RETURN_IF_ERROR(Expect(in.back() == 'x', "nothing written behind the buffer"));
        }
      }
      return PingPong(t, 50);
    });
  }
}

TEST_P(ConformanceTest, CountsTheBytesSentToOtherRanks) {
  Run(2, [](Transport& t) -> absl::Status {
    std::vector<char> out(12345), in(12345);
    const int other = 1 - t.rank();
    ADJOIN_RETURN_IF_ERROR(Expect(t.BytesSent() == 0, "nothing sent yet"));
    ADJOIN_ASSIGN_OR_RETURN(Handle receive, t.StartRecv(other, MakeTag(other, 1), BufferOf(in)));
    ADJOIN_RETURN_IF_ERROR(SendNow(t, other, MakeTag(t.rank(), 1), BufferOf(out)));
    ADJOIN_RETURN_IF_ERROR(t.Wait(receive, Soon()));
    return Expect(t.BytesSent() == 12345, absl::StrCat("12345 bytes sent, not ", t.BytesSent()));
  });
}

TEST_P(ConformanceTest, RefusesWrongPeersTagsBuffersAndHandles) {
  Run(2, [](Transport& t) -> absl::Status {
    const absl::StatusCode invalid = absl::StatusCode::kInvalidArgument;
    int64_t value = 0;
    const int own = t.rank(), other = 1 - own;
    for (int nobody : {-1, 2, 1000}) {
      ADJOIN_RETURN_IF_ERROR(ExpectError(t.StartSend(nobody, MakeTag(own, 1), BufferOf(value)).status(), invalid,
                                         {absl::StrCat("rank ", nobody), "ranks are 0 to 1"}));
      ADJOIN_RETURN_IF_ERROR(ExpectError(t.StartRecv(nobody, MakeTag(0, 1), BufferOf(value)).status(), invalid,
                                         {absl::StrCat("rank ", nobody), "ranks are 0 to 1"}));
    }
    ADJOIN_RETURN_IF_ERROR(ExpectError(t.StartSend(other, MakeTag(other, 1), BufferOf(value)).status(), invalid,
                                       {absl::StrCat("source must be the sender, rank ", own)}));
    ADJOIN_RETURN_IF_ERROR(ExpectError(t.StartRecv(other, MakeTag(own, 1), BufferOf(value)).status(), invalid,
                                       {absl::StrCat("source must be the sender, rank ", other)}));
    Buffer null;
    null.bytes = 4;
    ADJOIN_RETURN_IF_ERROR(ExpectError(t.StartSend(other, MakeTag(own, 1), null).status(), invalid, {"null"}));
    Buffer device = BufferOf(value);
    device.kind = t.Moves(MemoryKind::kCuda) ? MemoryKind::kFakeDevice : MemoryKind::kCuda;
    ADJOIN_RETURN_IF_ERROR(ExpectError(t.StartSend(other, MakeTag(own, 1), device).status(), invalid, {"memory"}));
    ADJOIN_RETURN_IF_ERROR(ExpectError(t.Wait(Handle{}, Soon()), absl::StatusCode::kNotFound, {}));
    ADJOIN_RETURN_IF_ERROR(ExpectError(t.Wait(Handle{12345678}, Soon()), absl::StatusCode::kNotFound, {}));
    return PingPong(t, 1);
  });
}

TEST_P(ConformanceTest, HoldsTheKeepaliveUntilWaitReturns) {
  Run(2, [](Transport& t) -> absl::Status {
    const int other = 1 - t.rank();
    auto memory = std::make_shared<std::vector<char>>(1000);
    Buffer in = BufferOf(*memory);
    in.keepalive = memory;
    std::vector<char> out(1000, 'a');
    ADJOIN_ASSIGN_OR_RETURN(Handle receive, t.StartRecv(other, MakeTag(other, 1), in));
    in.keepalive.reset();
    ADJOIN_RETURN_IF_ERROR(Expect(memory.use_count() == 2, "the transport holds the memory while it may write there"));
    ADJOIN_RETURN_IF_ERROR(SendNow(t, other, MakeTag(t.rank(), 1), BufferOf(out)));
    ADJOIN_RETURN_IF_ERROR(t.Wait(receive, Soon()));
    return Expect(memory.use_count() == 1, "the transport lets go of the memory");
  });
}

}  // namespace
}  // namespace adjoin
