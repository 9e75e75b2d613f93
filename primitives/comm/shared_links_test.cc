#include "primitives/comm/shared_links.h"

#include <cstdint>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "base/deadline.h"
#include "base/status_macros.h"
#include "gtest/gtest.h"
#include "primitives/comm/channel.h"
#include "primitives/comm/communicator.h"
#include "primitives/comm/local_memory.h"
#include "primitives/geometry/distribution.h"
#include "primitives/geometry/layout.h"
#include "primitives/transport/shared_peers.h"
#include "primitives/transport/transport_ranks.h"

namespace adjoin {
namespace {

constexpr TransportKind kShared = TransportKind::kUcxSharedMemory;

Layout Owner(int64_t elements, int rank) { return Layout::Owner({elements}, DType::kFloat64, rank); }
Layout All(int64_t elements, std::vector<int> ranks) {
  return *Layout::Replicated({elements}, DType::kFloat64, std::move(ranks));
}

MovementPlan Plan(const Layout& from, const Layout& to, int rank) {
  return *MovementPlan::Build(Distribution::Of(from), Distribution::Of(to), rank);
}

Buffer BufferOf(std::vector<double>& values) {
  Buffer buffer;
  buffer.data = values.data();
  buffer.bytes = values.size() * sizeof(double);
  return buffer;
}

absl::StatusOr<std::vector<double>> Move(Communicator& communicator, const Execution& execution,
                                         const MovementPlan& plan, double value) {
  std::vector<double> source(VolumeOf(plan.direct().from_shape()), value);
  std::vector<double> destination(VolumeOf(plan.direct().to_shape()), 0);
  ADJOIN_RETURN_IF_ERROR(communicator.Execute(execution, plan, BufferOf(source), BufferOf(destination)));
  return destination;
}

absl::Status Expect(bool condition, const std::string& what) {
  return condition ? absl::OkStatus() : absl::InternalError(absl::StrCat("expected: ", what));
}

TEST(SharedLinksTest, MovesByTheTransportThreeTimesAndThenThroughMemory) {
  const absl::Status status = RunRanks(3, kShared, 1, [](Transport& transport) -> absl::Status {
    HostMemory memory;
    Communicator communicator(&transport, &memory, {0, absl::Seconds(20)});
    const MovementPlan plan = Plan(*All(500, {0, 1, 2}).Dual(), All(500, {0, 1, 2}), transport.rank());
    SharedPeers* const shared = transport.shared_peers();
    ADJOIN_RETURN_IF_ERROR(Expect(shared != nullptr && shared->With((transport.rank() + 1) % 3), "shared memory"));
    for (int step = 0; step < 20; ++step) {
      const int64_t before = communicator.BytesSent(), through_memory = shared->BytesSent();
      ADJOIN_ASSIGN_OR_RETURN(const auto sum, Move(communicator, {7, "sum"}, plan, step + transport.rank()));
      ADJOIN_RETURN_IF_ERROR(Expect(sum == std::vector<double>(500, 3 * step + 3), absl::StrCat("sum ", step)));
      const int64_t sent = communicator.BytesSent() - before;
      ADJOIN_RETURN_IF_ERROR(Expect(sent == plan.BytesSent(), "all bytes counted"));
      ADJOIN_RETURN_IF_ERROR(Expect(shared->BytesSent() - through_memory == (step < 3 ? 0 : sent),
                                    absl::StrCat("step ", step, " goes the other way")));
    }
    return Expect(shared->arena().taken() > 0, "memory taken");
  });
  EXPECT_TRUE(status.ok()) << status;
}

TEST(SharedLinksTest, GivesItsMemoryBack) {
  const absl::Status status = RunRanks(2, kShared, 1, [](Transport& transport) -> absl::Status {
    const MovementPlan plan = Plan(*All(500, {0, 1}).Dual(), All(500, {0, 1}), transport.rank());
    for (int i = 0; i < 3; ++i) {
      HostMemory memory;
      Communicator communicator(&transport, &memory, {i, absl::Seconds(20)});
      for (int step = 0; step < 10; ++step) {
        ADJOIN_RETURN_IF_ERROR(Move(communicator, {7, "sum"}, plan, step).status());
      }
    }
    return Expect(transport.shared_peers()->arena().taken() == 0, "nothing taken");
  });
  EXPECT_TRUE(status.ok()) << status;
}

TEST(SharedLinksTest, LeavesLongMessagesToTheTransport) {
  const absl::Status status = RunRanks(2, kShared, 1, [](Transport& transport) -> absl::Status {
    HostMemory memory;
    Communicator communicator(&transport, &memory, {0, absl::Seconds(20)});
    const int64_t most = SharedRoutes::kMostBytes / 8;
    for (const int64_t elements : {most, most + 1}) {
      const int64_t before = transport.shared_peers()->BytesSent();
      const MovementPlan plan = Plan(Owner(elements, 0), Owner(elements, 1), transport.rank());
      for (int step = 0; step < 8; ++step) {
        ADJOIN_ASSIGN_OR_RETURN(const auto got, Move(communicator, {elements, "x"}, plan, step));
        ADJOIN_RETURN_IF_ERROR(Expect(got == std::vector<double>(got.size(), step), absl::StrCat("step ", step)));
      }
      const int64_t expected = transport.rank() == 0 && elements == most ? 5 * elements * 8 : 0;
      ADJOIN_RETURN_IF_ERROR(Expect(transport.shared_peers()->BytesSent() - before == expected, "the way"));
    }
    return absl::OkStatus();
  });
  EXPECT_TRUE(status.ok()) << status;
}

// As the batches of an epoch and its shorter last one; one rank plans anew each time, and there are more plans than
// links are kept.
TEST(SharedLinksTest, FollowsAnOperatorThroughSeveralPlans) {
  const absl::Status status = RunRanks(3, kShared, 1, [](Transport& transport) -> absl::Status {
    HostMemory memory;
    Communicator communicator(&transport, &memory, {0, absl::Seconds(40)});
    const auto make = [&](int64_t elements) {
      return Plan(Owner(elements, 0), All(elements, {1, 2}), transport.rank());
    };
    std::vector<MovementPlan> plans;
    for (int64_t i = 0; i < 6; ++i) plans.push_back(make(10 + i));
    std::mt19937 random(5);
    size_t which = 0;
    for (int step = 0; step < 600; ++step) {
      if (random() % 4 == 0) which = random() % plans.size();
      const bool anew = transport.rank() == 1;
      ADJOIN_ASSIGN_OR_RETURN(const auto got, Move(communicator, {7, "x"},
                                                   anew ? make(10 + static_cast<int64_t>(which)) : plans[which], step));
      ADJOIN_RETURN_IF_ERROR(Expect(got == std::vector<double>(got.size(), step), absl::StrCat("step ", step)));
    }
    return Expect(transport.rank() != 0 || transport.shared_peers()->BytesSent() > 0, "shared memory in between");
  });
  EXPECT_TRUE(status.ok()) << status;
}

// Ends as rank 1 stops after some executions: the third that it leaves out waits for it.
absl::Status SendAlone(Transport& transport, absl::Duration timeout) {
  HostMemory memory;
  Communicator communicator(&transport, &memory, {0, timeout});
  const MovementPlan plan = Plan(Owner(6, 0), Owner(6, 1), transport.rank());
  for (int step = 0; step < 9; ++step) {
    ADJOIN_RETURN_IF_ERROR(Move(communicator, {7, "conv1.x"}, plan, step).status());
  }
  if (transport.rank() == 1) return absl::OkStatus();
  for (int step = 0; step < 2; ++step) {
    ADJOIN_RETURN_IF_ERROR(Move(communicator, {7, "conv1.x"}, plan, step).status());
  }
  const absl::Status third = Move(communicator, {7, "conv1.x"}, plan, 1).status();
  return third.ok() ? absl::InternalError("three executions are in flight") : third;
}

TEST(SharedLinksTest, KeepsASenderAtMostTwoExecutionsAhead) {
  const auto all = RunRanksCollect(2, kShared, 1, [](Transport& t) { return SendAlone(t, absl::Seconds(3)); });
  EXPECT_TRUE(all[1].ok()) << all[1];
  EXPECT_EQ(all[0].code(), absl::StatusCode::kDeadlineExceeded) << all[0];
  EXPECT_TRUE(absl::StrContains(all[0].message(),
                                "operator 7 (conv1.x) forward, generation 11: waiting to send to rank 1: rank 0 waited "
                                "too long for rank 1 to read a message in shared memory"))
      << all[0];
}

// The same bound, by credits, where the receiver has no memory left.
TEST(SharedLinksTest, GoesByTheTransportWhereMemoryIsTaken) {
  absl::Notification taken;
  const auto all = RunRanksCollect(2, kShared, 1, [&taken](Transport& transport) -> absl::Status {
    SharedArena& arena = transport.shared_peers()->arena();
    if (transport.rank() == 1) {
      while (arena.Take(4096).ok()) {
      }
      while (arena.Take(64).ok()) {
      }
      taken.Notify();
    }
    taken.WaitForNotificationWithTimeout(absl::Seconds(60));
    const absl::Status status = SendAlone(transport, absl::Seconds(3));
    ADJOIN_RETURN_IF_ERROR(Expect(transport.shared_peers()->BytesSent() == 0, "nothing through memory"));
    return status;
  });
  EXPECT_TRUE(all[1].ok()) << all[1];
  EXPECT_EQ(all[0].code(), absl::StatusCode::kDeadlineExceeded) << all[0];
  EXPECT_TRUE(absl::StrContains(all[0].message(), "generation 11: waiting for rank 1: ")) << all[0];
}

// Rank 0 waits for a message that rank 1 does not send.
absl::Status ReceiveAlone(Transport& transport, Communicator& communicator) {
  const MovementPlan plan = Plan(Owner(6, 1), Owner(6, 0), transport.rank());
  for (int step = 0; step < 9; ++step) {
    ADJOIN_RETURN_IF_ERROR(Move(communicator, {7, "conv1.x"}, plan, step).status());
  }
  if (transport.rank() == 1) return absl::OkStatus();
  return Move(communicator, {7, "conv1.x"}, plan, 0).status();
}

TEST(SharedLinksTest, NamesTheRankThatDoesNotSend) {
  const auto all = RunRanksCollect(2, kShared, 1, [](Transport& transport) {
    HostMemory memory;
    Communicator communicator(&transport, &memory, {0, absl::Seconds(3)});
    return ReceiveAlone(transport, communicator);
  });
  EXPECT_EQ(all[0].code(), absl::StatusCode::kDeadlineExceeded) << all[0];
  EXPECT_TRUE(
      absl::StrContains(all[0].message(),
                        "operator 7 (conv1.x) forward, generation 9: waiting for rank 1: rank 0 waited too long "
                        "for rank 1 to write a message in shared memory"))
      << all[0];
}

TEST(SharedLinksTest, EndsAWaitByAnAbortOfAnotherThread) {
  const auto all = RunRanksCollect(2, kShared, 1, [](Transport& transport) {
    HostMemory memory;
    Communicator communicator(&transport, &memory, {0, absl::Seconds(30)});
    std::thread watcher;
    if (transport.rank() == 0) {
      watcher = std::thread([&] {
        const Deadline deadline = Deadline::After(absl::Seconds(20));
        while (!deadline.Expired()) {
          const auto waiting = communicator.waiting();
          if (waiting.has_value() && waiting->execution == 10) break;
          std::this_thread::yield();
        }
        communicator.Abort(absl::CancelledError("the job was cancelled"));
      });
    }
    const absl::Status status = ReceiveAlone(transport, communicator);
    if (watcher.joinable()) watcher.join();
    return status;
  });
  EXPECT_EQ(all[0].code(), absl::StatusCode::kCancelled) << all[0];
  EXPECT_TRUE(absl::StrContains(all[0].message(), "the job was cancelled")) << all[0];
}

// Rank 1 aborts while rank 0 waits for its message.
TEST(SharedLinksTest, EndsAWaitByAnAbortOfThePeer) {
  const auto all = RunRanksCollect(2, kShared, 1, [](Transport& transport) {
    HostMemory memory;
    Communicator communicator(&transport, &memory, {0, absl::Seconds(30)});
    absl::Status status = ReceiveAlone(transport, communicator);
    if (transport.rank() == 1) {
      communicator.Abort(absl::ResourceExhaustedError("no memory for a tensor"));
      transport.Check(0).IgnoreError();  // tells the others
    }
    return status;
  });
  EXPECT_EQ(all[0].code(), absl::StatusCode::kResourceExhausted) << all[0];
  EXPECT_TRUE(absl::StrContains(all[0].message(), "rank 1: no memory for a tensor")) << all[0];
}

// A rank whose messages are always there hears of an abort all the same.
TEST(SharedLinksTest, HearsOfAnAbortWithoutWaiting) {
  const auto all = RunRanksCollect(3, kShared, 1, [](Transport& transport) -> absl::Status {
    if (transport.rank() == 2) {
      transport.Abort(absl::ResourceExhaustedError("no memory for a tensor"));
      transport.Check(0).IgnoreError();  // tells the others
      return absl::OkStatus();
    }
    HostMemory memory;
    Communicator communicator(&transport, &memory, {0, absl::Seconds(30)});
    const MovementPlan plan = Plan(*All(6, {0, 1}).Dual(), All(6, {0, 1}), transport.rank());
    const Deadline deadline = Deadline::After(absl::Seconds(20));
    while (!deadline.Expired()) ADJOIN_RETURN_IF_ERROR(Move(communicator, {7, "x"}, plan, 1).status());
    return absl::InternalError("never heard of it");
  });
  for (int rank : {0, 1}) {
    EXPECT_EQ(all[rank].code(), absl::StatusCode::kResourceExhausted) << all[rank];
  }
}

// Rank 1 offers memory that its arena does not have. It speaks for itself, without a communicator.
TEST(SharedLinksTest, RefusesAnOfferOutsideOfThePeersMemory) {
  for (const int64_t offset : {int64_t{0}, int64_t{-64}, int64_t{4100}, SharedArena::kBytes - 64, SharedArena::kBytes,
                               int64_t{1} << 40, INT64_MAX, INT64_MAX - 63, INT64_MIN}) {
    const auto all = RunRanksCollect(2, kShared, 1, [&](Transport& transport) -> absl::Status {
      const MovementPlan plan = Plan(Owner(6, 0), Owner(6, 1), transport.rank());
      const Execution execution{7, "x"};
      if (transport.rank() == 1) {
        for (int64_t generation = 0; generation < 4; ++generation) {
          Channel channel(&transport, 0, &execution, generation);
          const Deadline deadline = Deadline::After(absl::Seconds(20));
          std::vector<double> in(6);
          int64_t offer = offset;
          Buffer buffer;
          buffer.data = &offer;
          buffer.bytes = sizeof(offer);
          Channel::Posted offered;
          if (generation == 1) {
            ADJOIN_ASSIGN_OR_RETURN(offered, channel.SendOffer(0, buffer));
          }
          if (generation == 3) break;
          ADJOIN_ASSIGN_OR_RETURN(const auto receive, channel.Recv(0, Channel::kDirectSlot, BufferOf(in)));
          ADJOIN_RETURN_IF_ERROR(channel.Wait(receive, deadline));
          ADJOIN_ASSIGN_OR_RETURN(const Handle credit, channel.SendCredit(0));
          ADJOIN_RETURN_IF_ERROR(transport.Wait(credit, deadline));
          if (generation == 1) ADJOIN_RETURN_IF_ERROR(channel.Wait(offered, deadline));
        }
        return absl::OkStatus();
      }
      HostMemory memory;
      Communicator communicator(&transport, &memory, {0, absl::Seconds(20)});
      absl::Status status;
      for (int step = 0; step < 4 && status.ok(); ++step) status = Move(communicator, execution, plan, step).status();
      return status;
    });
    EXPECT_EQ(all[0].code(), absl::StatusCode::kDataLoss) << offset << ": " << all[0];
    EXPECT_TRUE(absl::StrContains(all[0].message(),
                                  "operator 7 (x) forward, generation 3: waiting to send to rank 1: rank 1 offers "))
        << all[0];
  }
}

// A peer that writes anything anywhere into this rank's memory: an error, and nothing of this rank's own is touched.
TEST(SharedLinksTest, SurvivesAPeerThatOverwritesItsMemory) {
  for (uint64_t seed = 0; seed < 8; ++seed) {
    const auto all = RunRanksCollect(2, kShared, 1, [&](Transport& transport) -> absl::Status {
      HostMemory memory;
      Communicator communicator(&transport, &memory, {0, absl::Milliseconds(200)});
      const MovementPlan plan = Plan(*All(100, {0, 1}).Dual(), All(100, {0, 1}), transport.rank());
      for (int step = 0; step < 6; ++step) {
        ADJOIN_RETURN_IF_ERROR(Move(communicator, {7, "x"}, plan, step).status());
      }
      if (transport.rank() == 1) {
        std::mt19937_64 random(seed);
        char* const memory_of_zero = transport.shared_peers()->OfPeer(0, 4096, 8192);
        for (int at = 0; at < 8192; at += 8) {
          const uint64_t word = seed % 2 == 0 ? random() : random() % 8;
          std::memcpy(memory_of_zero + at, &word, sizeof(word));
        }
        return absl::OkStatus();
      }
      absl::Status status;
      const Deadline deadline = Deadline::After(absl::Seconds(20));
      while (status.ok() && !deadline.Expired()) status = Move(communicator, {7, "x"}, plan, 1).status();
      return status;
    });
    EXPECT_TRUE(absl::IsDataLoss(all[0]) || absl::IsDeadlineExceeded(all[0])) << all[0];
  }
}

}  // namespace
}  // namespace adjoin
