#include "primitives/comm/communicator.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/deadline.h"
#include "base/status_macros.h"
#include "gtest/gtest.h"
#include "primitives/geometry/distribution.h"
#include "primitives/geometry/layout.h"
#include "primitives/transport/transport_ranks.h"

namespace adjoin {
namespace {

constexpr int64_t kElements = 6;

Layout Owner(int rank) { return Layout::Owner({kElements}, DType::kFloat64, rank); }
Layout All(std::vector<int> ranks) { return *Layout::Replicated({kElements}, DType::kFloat64, ranks); }

MovementPlan Plan(const Layout& from, const Layout& to, int rank) {
  return *MovementPlan::Build(Distribution::Of(from), Distribution::Of(to), rank);
}

Buffer BufferOf(std::vector<double>& values) {
  Buffer buffer;
  buffer.data = values.data();
  buffer.bytes = values.size() * sizeof(double);
  return buffer;
}

// One execution on this rank with values of its own; returns what arrives.
absl::StatusOr<std::vector<double>> Move(Communicator& communicator, const Execution& execution,
                                         const MovementPlan& plan, double value) {
  std::vector<double> source(VolumeOf(plan.direct().from_shape()), value);
  std::vector<double> destination(VolumeOf(plan.direct().to_shape()), 0);
  ADJOIN_RETURN_IF_ERROR(communicator.Execute(execution, plan, BufferOf(source), BufferOf(destination)));
  return destination;
}

TEST(CommunicatorTest, ExecutesManyGenerationsInBothDirections) {
  const absl::Status status = RunRanks(4, TransportKind::kInMemoryDelayed, 5, [](Transport& transport) -> absl::Status {
    HostMemory memory;
    Communicator communicator(&transport, &memory, {0, absl::Seconds(20)});
    const MovementPlan broadcast = Plan(Owner(1), All({0, 1, 2, 3}), transport.rank());
    const MovementPlan sum = broadcast.Reversed();
    for (int step = 0; step < 1100; ++step) {  // beyond where generations wrap
      ADJOIN_ASSIGN_OR_RETURN(const auto copies, Move(communicator, {7, "w", Direction::kForward}, broadcast, step));
      ADJOIN_ASSIGN_OR_RETURN(const auto total, Move(communicator, {7, "w", Direction::kAdjoint}, sum, step + 1));
      if (copies != std::vector<double>(kElements, step)) return absl::InternalError(absl::StrCat("copy ", step));
      if (transport.rank() == 1 && total != std::vector<double>(kElements, 4 * (step + 1))) {
        return absl::InternalError(absl::StrCat("sum ", step));
      }
    }
    return absl::OkStatus();
  });
  EXPECT_TRUE(status.ok()) << status;
}

// Nobody receives: two executions are sent, the third waits for the first one's credit.
TEST(CommunicatorTest, KeepsASenderAtMostTwoExecutionsAhead) {
  const auto all = RunRanksCollect(2, TransportKind::kInMemory, 1, [](Transport& transport) -> absl::Status {
    HostMemory memory;
    Communicator communicator(&transport, &memory, {0, absl::Milliseconds(100)});
    if (transport.rank() == 1) return absl::OkStatus();
    const MovementPlan plan = Plan(Owner(0), Owner(1), 0);
    for (int generation = 0; generation < 2; ++generation) {
      ADJOIN_RETURN_IF_ERROR(Move(communicator, {7, "conv1.x", Direction::kForward}, plan, 1).status());
    }
    const absl::Status third = Move(communicator, {7, "conv1.x", Direction::kForward}, plan, 1).status();
    if (third.ok()) return absl::InternalError("three executions are in flight");
    if (communicator.BytesSent() != 2 * kElements * 8) return absl::InternalError("credits count as payload");
    return third;
  });
  EXPECT_TRUE(all[1].ok()) << all[1];
  EXPECT_EQ(all[0].code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(std::string(all[0].message()).find("operator 7 (conv1.x) forward, generation 2: waiting for rank 1: "), 0u)
      << all[0];
}

// Rank 0 sends twice before rank 1, which sends first, too, receives at all, of messages that are too long for any
// transport to take before there is a receive. A third waits for the first.
TEST(CommunicatorTest, SendsAheadWithoutAReceiver) {
  constexpr int64_t kLong = 1 << 16;
  for (TransportKind kind : kAllTransportKinds) {
    const absl::Status status = RunRanks(2, kind, 11, [](Transport& transport) -> absl::Status {
      HostMemory memory;
      Communicator communicator(&transport, &memory, {0, absl::Seconds(60)});
      const int rank = transport.rank();
      const Layout zero = Layout::Owner({kLong}, DType::kFloat64, 0), one = Layout::Owner({kLong}, DType::kFloat64, 1);
      const MovementPlan there = Plan(zero, one, rank), back = there.Reversed();
      const Execution x{.op = 7, .name = "x", .direction = Direction::kForward, .sends_ahead = rank == 0};
      const Execution dx{.op = 7, .name = "x", .direction = Direction::kAdjoint, .sends_ahead = rank == 1};
      const auto moved = [&](const Execution& execution, const MovementPlan& plan, double value) -> absl::Status {
        // Kept by the buffer alone, as a tensor is.
        auto source = std::make_shared<std::vector<double>>(VolumeOf(plan.direct().from_shape()), value);
        std::vector<double> destination(VolumeOf(plan.direct().to_shape()), 0);
        Buffer from = BufferOf(*source);
        from.keepalive = source;
        source.reset();
        ADJOIN_RETURN_IF_ERROR(communicator.Execute(execution, plan, from, BufferOf(destination)));
        if (destination == std::vector<double>(destination.size(), value)) return absl::OkStatus();
        return absl::InternalError(absl::StrCat("rank ", rank, " received another value than ", value));
      };
      for (int step = 0; step < 4; ++step) {
        const auto forward = [&](int part) { return moved(x, there, 10 * step + part); };
        const auto backward = [&](int part) { return moved(dx, back, -10 * step - part); };
        if (rank == 0) {
          for (const int part : {0, 1}) ADJOIN_RETURN_IF_ERROR(forward(part));
          for (const int part : {0, 1}) ADJOIN_RETURN_IF_ERROR(backward(part));
          ADJOIN_RETURN_IF_ERROR(forward(2));
          ADJOIN_RETURN_IF_ERROR(backward(2));
        } else {
          for (const int part : {0, 1, 2}) {
            if (part > 0) ADJOIN_RETURN_IF_ERROR(forward(part - 1));
            ADJOIN_RETURN_IF_ERROR(backward(part));
          }
          ADJOIN_RETURN_IF_ERROR(forward(2));
        }
        ADJOIN_RETURN_IF_ERROR(communicator.SendAll());
      }
      return absl::OkStatus();
    });
    EXPECT_TRUE(status.ok()) << status << " over " << kind;
  }
}

TEST(CommunicatorTest, NamesTheReceiverThatDoesNotTakeWhatWasSentAhead) {
  for (const bool fifth : {false, true}) {  // it waits for the third
    const auto all = RunRanksCollect(2, TransportKind::kInMemory, 1, [fifth](Transport& transport) -> absl::Status {
      HostMemory memory;
      Communicator communicator(&transport, &memory, {0, absl::Milliseconds(100)});
      if (transport.rank() == 1) return absl::OkStatus();
      const MovementPlan plan = Plan(Owner(0), Owner(1), 0);
      const Execution x{.op = 7, .name = "x", .direction = Direction::kForward, .sends_ahead = true};
      for (int generation = 0; generation < (fifth ? 5 : 3); ++generation) {
        ADJOIN_RETURN_IF_ERROR(Move(communicator, x, plan, 1).status());
      }
      return communicator.SendAll();
    });
    EXPECT_EQ(all[0].code(), absl::StatusCode::kDeadlineExceeded) << all[0];
    EXPECT_EQ(std::string(all[0].message()).find("operator 7 (x) forward, generation 2: waiting for rank 1: "), 0u)
        << all[0];
  }
}

// The receiver is three behind in real time, yet everything arrives in order: the credits let the sender on.
TEST(CommunicatorTest, LetsTheSenderOnByCredits) {
  for (TransportKind kind : kAllTransportKinds) {
    const absl::Status status = RunRanks(3, kind, 3, [](Transport& transport) -> absl::Status {
      HostMemory memory;
      Communicator communicator(&transport, &memory, {0, absl::Seconds(20)});
      const MovementPlan plan = Plan(Owner(0), All({1, 2}), transport.rank());
      for (int step = 0; step < 50; ++step) {
        ADJOIN_ASSIGN_OR_RETURN(const auto got, Move(communicator, {1, "x", Direction::kForward}, plan, step));
        if (transport.rank() != 0 && got != std::vector<double>(kElements, step)) {
          return absl::InternalError(absl::StrCat("step ", step));
        }
      }
      return absl::OkStatus();
    });
    EXPECT_TRUE(status.ok()) << status << " over " << kind;
  }
}

TEST(CommunicatorTest, KeepsTheFirstFailure) {
  const auto all = RunRanksCollect(2, TransportKind::kInMemory, 1, [](Transport& transport) -> absl::Status {
    HostMemory memory;
    Communicator communicator(&transport, &memory, {0, absl::Milliseconds(50)});
    if (transport.rank() == 0) return absl::OkStatus();
    const MovementPlan plan = Plan(Owner(0), Owner(1), 1);
    const absl::Status first = Move(communicator, {7, "", Direction::kForward}, plan, 1).status();
    const absl::Status second = Move(communicator, {8, "", Direction::kForward}, plan, 1).status();
    communicator.Abort(absl::AbortedError("later"));
    if (second != first || communicator.status() != first) return absl::InternalError("another failure took its place");
    return first;
  });
  EXPECT_EQ(all[1].code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(std::string(all[1].message()).find("operator 7 forward, generation 0: waiting for rank 0: "), 0u) << all[1];
}

TEST(CommunicatorTest, EndsAWaitByAnAbortOfAnotherThread) {
  for (TransportKind kind : kAllTransportKinds) {
    const auto all = RunRanksCollect(2, kind, 1, [](Transport& transport) -> absl::Status {
      HostMemory memory;
      Communicator communicator(&transport, &memory, {0, absl::Seconds(30)});
      if (transport.rank() == 0) return absl::OkStatus();
      std::thread watcher([&] { communicator.Abort(absl::CancelledError("the job was cancelled")); });
      const absl::Status status =
          Move(communicator, {7, "", Direction::kForward}, Plan(Owner(0), Owner(1), 1), 1).status();
      watcher.join();
      return status;
    });
    EXPECT_EQ(all[1].code(), absl::StatusCode::kCancelled) << all[1] << " over " << kind;
    EXPECT_NE(std::string(all[1].message()).find("the job was cancelled"), std::string::npos) << all[1];
  }
}

// Rank 1 executes nothing, so that only WaitForFailure makes progress there.
TEST(CommunicatorTest, WaitsForTheFailureOfAnotherRank) {
  for (TransportKind kind : kAllTransportKinds) {
    const auto all = RunRanksCollect(2, kind, 1, [](Transport& transport) -> absl::Status {
      HostMemory memory;
      Communicator communicator(&transport, &memory, {0, absl::Seconds(30)});
      if (transport.rank() == 0) {
        communicator.Abort(absl::DataLossError("the volume is damaged"));
        transport.Flush(Deadline::After(absl::Seconds(10))).IgnoreError();  // a call of the transport tells the others
        return absl::OkStatus();
      }
      const absl::Status failure = communicator.WaitForFailure(absl::Seconds(10));
      if (communicator.status() != failure) return absl::InternalError("the failure was not kept");
      return failure;
    });
    EXPECT_EQ(all[1].code(), absl::StatusCode::kDataLoss) << all[1] << " over " << kind;
    EXPECT_NE(std::string(all[1].message()).find("rank 0: the volume is damaged"), std::string::npos) << all[1];
  }
}

TEST(CommunicatorTest, WaitsNoLongerThanAskedWhereNothingFails) {
  for (TransportKind kind : kAllTransportKinds) {
    const absl::Status status = RunRanks(2, kind, 1, [](Transport& transport) -> absl::Status {
      HostMemory memory;
      Communicator communicator(&transport, &memory, {0, absl::Seconds(30)});
      ADJOIN_RETURN_IF_ERROR(communicator.WaitForFailure(absl::Milliseconds(20)));
      const MovementPlan plan = Plan(Owner(0), Owner(1), transport.rank());
      return Move(communicator, {7, "", Direction::kForward}, plan, 1).status();  // it can be used on
    });
    EXPECT_TRUE(status.ok()) << status << " over " << kind;
  }
}

TEST(CommunicatorTest, RefusesBuffersThatDoNotFit) {
  const absl::Status status = RunRanks(1, TransportKind::kInMemory, 1, [](Transport& transport) -> absl::Status {
    HostMemory memory;
    Communicator communicator(&transport, &memory, {});
    std::vector<double> five(5);
    std::vector<double> six(6);
    return communicator.Execute({7, "x", Direction::kForward}, Plan(Owner(0), Owner(0), 0), BufferOf(five),
                                BufferOf(six));
  });
  EXPECT_NE(std::string(status.message())
                .find("operator 7 (x) forward, generation 0: on rank 0: the source has 40 bytes, expected 48 for "
                      "float64 (6)"),
            std::string::npos)
      << status;
}

// Rank 0 gives its value only after it has seen, from another thread, what rank 1 waits in; in each of three
// executions.
TEST(CommunicatorTest, NamesTheExecutionInWhichItWaits) {
  std::atomic<const Communicator*> waiter{nullptr};
  std::atomic<bool> over{false};
  const absl::Status status = RunRanks(2, TransportKind::kInMemory, 1, [&](Transport& transport) -> absl::Status {
    HostMemory memory;
    Communicator communicator(&transport, &memory, {0, absl::Seconds(20)});
    const Execution execution{7, "conv1.x", Direction::kAdjoint};
    const MovementPlan plan = Plan(Owner(0), Owner(1), transport.rank());
    if (transport.rank() == 1) {
      waiter.store(&communicator);
      absl::Status moved;
      for (int step = 0; step < 3 && moved.ok(); ++step) moved = Move(communicator, execution, plan, 0).status();
      const bool still = communicator.waiting().has_value();
      const Deadline deadline = Deadline::After(absl::Seconds(20));
      while (!over && !deadline.Expired()) std::this_thread::yield();  // it is still looked at
      return still ? absl::InternalError("it waits for nothing") : moved;
    }
    absl::Status seen;
    for (int step = 1; step <= 3 && seen.ok(); ++step) {
      const Deadline deadline = Deadline::After(absl::Seconds(10));
      std::optional<Communicator::Waiting> waiting;
      while (!deadline.Expired()) {
        const Communicator* other = waiter.load();
        if (other != nullptr) waiting = other->waiting();
        if (waiting.has_value() && waiting->execution == step) break;
        std::this_thread::yield();
      }
      if (!waiting.has_value() || waiting->name != "conv1.x" || waiting->direction != Direction::kAdjoint ||
          waiting->execution != step) {
        seen = absl::InternalError(absl::StrCat("it does not say that it waits in execution ", step));
      } else {
        seen = Move(communicator, execution, plan, step).status();
      }
    }
    over = true;
    return seen;
  });
  EXPECT_TRUE(status.ok()) << status;
}

// Two executions at once, waited for in the other order.
TEST(CommunicatorTest, HandlesSeveralExecutionsInFlight) {
  const absl::Status status = RunRanks(2, TransportKind::kInMemoryDelayed, 9, [](Transport& transport) -> absl::Status {
    HostMemory memory;
    Communicator communicator(&transport, &memory, {0, absl::Seconds(20)});
    const MovementPlan plan = Plan(Owner(0), All({0, 1}), transport.rank());
    const std::size_t size = transport.rank() == 0 ? kElements : 0;
    std::vector<double> a(size, 1), b(size, 2), to_a(kElements), to_b(kElements);
    ADJOIN_ASSIGN_OR_RETURN(auto first, communicator.Start({1, "a"}, plan, BufferOf(a), BufferOf(to_a)));
    ADJOIN_ASSIGN_OR_RETURN(auto second, communicator.Start({2, "b"}, plan, BufferOf(b), BufferOf(to_b)));
    ADJOIN_RETURN_IF_ERROR(communicator.Wait(std::move(second)));
    ADJOIN_RETURN_IF_ERROR(communicator.Wait(std::move(first)));
    if (to_a != std::vector<double>(kElements, 1) || to_b != std::vector<double>(kElements, 2)) {
      return absl::InternalError("the executions met");
    }
    return absl::OkStatus();
  });
  EXPECT_TRUE(status.ok()) << status;
}

// A large broadcast goes on while another operator is waited for, before its own wait.
TEST(CommunicatorTest, AdvancesStartedExecutionsWhileOthersAreWaitedFor) {
  constexpr int64_t kMany = 1 << 20;
  const Layout owner = Layout::Owner({kMany}, DType::kFloat64, 0);
  const Layout all = *Layout::Replicated({kMany}, DType::kFloat64, {0, 1, 2, 3});
  const absl::Status status =
      RunRanks(4, TransportKind::kInMemoryDelayed, 4, [&](Transport& transport) -> absl::Status {
        HostMemory memory;
        Communicator communicator(&transport, &memory, {0, absl::Seconds(20)});
        const MovementPlan large = Plan(owner, all, transport.rank());
        const MovementPlan small = Plan(*All({0, 1, 2, 3}).Dual(), All({0, 1, 2, 3}), transport.rank());
        if (large.groups().size() != 1) return absl::InternalError("not a group: " + large.Describe());
        std::vector<double> x(transport.rank() == 0 ? kMany : 0, 3), y(kMany), a(kElements, 1), b(kElements);
        ADJOIN_ASSIGN_OR_RETURN(auto pending, communicator.Start({1, "w"}, large, BufferOf(x), BufferOf(y)));
        for (int i = 0; i < 400; ++i) {
          std::fill(b.begin(), b.end(), 0);
          ADJOIN_RETURN_IF_ERROR(communicator.Execute({2, "loss"}, small, BufferOf(a), BufferOf(b)));
          if (b != std::vector<double>(kElements, 4)) return absl::InternalError("the small sum is wrong");
        }
        if (!pending->done()) return absl::InternalError("the broadcast did not go on");
        for (double value : y) {
          if (value != 3) return absl::InternalError("the broadcast is wrong");
        }
        return communicator.Wait(std::move(pending));
      });
  EXPECT_TRUE(status.ok()) << status;
}

TEST(CommunicatorTest, RefusesAnIdOfAnotherOperator) {
  const auto all = RunRanksCollect(3, TransportKind::kInMemory, 1, [](Transport& transport) -> absl::Status {
    HostMemory memory;
    Communicator communicator(&transport, &memory, {0, absl::Seconds(5)});
    const int rank = transport.rank();
    ADJOIN_RETURN_IF_ERROR(Move(communicator, {7, "conv1.x"}, Plan(Owner(0), Owner(1), rank), 1).status());
    return Move(communicator, {7, "conv2.x"}, Plan(Owner(1), Owner(2), rank), 1).status();
  });
  EXPECT_EQ(all[0].code(), absl::StatusCode::kFailedPrecondition) << all[0];
  EXPECT_NE(all[0].message().find("this id was that of operator \"conv1.x\" before"), std::string::npos) << all[0];
}

// Rank 1 executes another operator, another direction, or the same with another shape.
TEST(CommunicatorTest, ComparesWhatRanksExecute) {
  const auto run = [](const Execution& theirs, uint64_t fingerprint) {
    return RunRanksCollect(2, TransportKind::kInMemoryDelayed, 6, [&](Transport& transport) -> absl::Status {
      HostMemory memory;
      Communicator communicator(&transport, &memory, {0, absl::Seconds(5), /*compare_executions=*/true});
      Execution execution{7, "conv1.x", Direction::kForward, 99, "float64 [6]"};
      const MovementPlan plan = Plan(Owner(0), All({0, 1}), transport.rank());
      for (int step = 0; step < 3; ++step) ADJOIN_RETURN_IF_ERROR(Move(communicator, execution, plan, step).status());
      if (transport.rank() == 1) {
        execution = theirs;
        execution.fingerprint = fingerprint;
      }
      return Move(communicator, execution, plan, 3).status();
    });
  };
  for (const absl::Status& status : run({7, "conv1.x", Direction::kForward, 0, "float64 [6]"}, 99)) {
    EXPECT_TRUE(status.ok()) << status;
  }
  const auto other = run({8, "conv2.x", Direction::kForward, 0, "float64 [6]"}, 99);
  const auto expect = [](const absl::Status& status, const std::string& text) {
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
    EXPECT_NE(status.message().find(text), std::string::npos) << status;
  };
  // One of the two finds it first and aborts the other.
  const absl::Status& first = absl::IsFailedPrecondition(other[0]) ? other[0] : other[1];
  expect(first, "operator 8 (conv2.x) forward, generation 0, of float64 [6]");
  expect(first, "operator 7 (conv1.x) forward, generation 3, of float64 [6]");
  expect(first, "every rank must execute the same operators in the same order");
  const auto shape = run({7, "conv1.x", Direction::kForward, 0, "float64 [9]"}, 98);
  expect(absl::IsFailedPrecondition(shape[0]) ? shape[0] : shape[1], "the operator's shape, type or layouts differ");
}

}  // namespace
}  // namespace adjoin
