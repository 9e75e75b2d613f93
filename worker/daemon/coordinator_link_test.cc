#include "worker/daemon/coordinator_link.h"

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "base/boot_clock.h"
#include "base/deadline.h"
#include "base/monotonic_condition.h"
#include "base/security/server_watch.h"
#include "base/unique_fd.h"
#include "proto/protocol.h"
#include "worker/testing/fake_coordinator.h"

namespace adjoin {
namespace {

using ::testing::HasSubstr;

// An address at which no attempt to connect is answered or refused: a listener whose queue is full drops them, as a
// network does where a machine has gone.
class Nowhere {
 public:
  Nowhere() {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    const UniqueFd& listener = fds_.emplace_back(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(bind(listener.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(listen(listener.get(), 0), 0);
    EXPECT_EQ(getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
    address_ = absl::StrCat("127.0.0.1:", ntohs(address.sin_port));
    // A queue of 0 has a place for one connection; with the second there is room for none.
    for (int i = 0; i < 2; ++i) {
      const UniqueFd& fd = fds_.emplace_back(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
      connect(fd.get(), reinterpret_cast<sockaddr*>(&address), size);
    }
  }
  const std::string& address() const { return address_; }

 private:
  std::vector<UniqueFd> fds_;
  std::string address_;
};

Deadline Soon() { return Deadline::After(absl::Seconds(20)); }

class CoordinatorLinkTest : public ::testing::Test {
 protected:
  void Start(absl::Duration answer_timeout = absl::Seconds(10), ServerCheck check_server = nullptr) {
    CoordinatorLink::Settings settings;
    settings.coordinator = coordinator_.address();
    settings.first_backoff = absl::Milliseconds(5);
    settings.longest_backoff = absl::Milliseconds(20);
    settings.answer_timeout = answer_timeout;
    settings.max_log_messages = 3;
    settings.check_server = std::move(check_server);
    link_ = std::make_unique<CoordinatorLink>(
        settings, CoordinatorLink::Callbacks{.on_connecting =
                                                 [this](WorkerHello& hello, const std::function<void()>& open) {
                                                   absl::MutexLock lock(&mutex_);
                                                   hello.set_slots(facts_);
                                                   *hello.mutable_attempt() = reports_.attempt();
                                                   open();
                                                 },
                                             .on_connected = [](const Welcome&) { return true; },
                                             .on_heartbeat = [](Heartbeat& heartbeat) { heartbeat.set_incarnation(7); },
                                             .on_lease =
                                                 [this](int64_t until, absl::Duration length) {
                                                   absl::MutexLock lock(&mutex_);
                                                   leases_.push_back({until, length});
                                                   changed_.NotifyAll();
                                                 },
                                             .on_message = [](const CoordinatorMessage&) {},
                                             .on_lost = [] {}});
  }
  void Run() {
    runner_ = std::thread([this] { status_ = link_->Run(); });
  }
  // The next fact, as NodeAttempts tells it: under the lock under which hellos are made.
  void TellFact() {
    absl::MutexLock lock(&mutex_);
    WorkerMessage message;
    message.mutable_rank_update()->mutable_progress()->set_step(++facts_);
    message.mutable_rank_update()->set_rank(facts_);  // the next of the same rank would replace it
    link_->Send(std::move(message));
  }
  void TellLog(uint64_t epoch, const std::string& text) {
    WorkerMessage message;
    *message.mutable_header() = MakeHeader(epoch);
    message.mutable_log()->add_line()->set_text(text);
    link_->Send(std::move(message));
  }
  bool AwaitLeases(size_t count) {
    absl::MutexLock lock(&mutex_);
    return changed_.Wait(mutex_, Soon(),
                         [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return leases_.size() >= count; });
  }
  void TearDown() override {
    if (link_ != nullptr) link_->Stop();
    if (runner_.joinable()) runner_.join();
  }

  FakeCoordinator coordinator_;
  std::atomic<bool> revoked_{false};
  std::unique_ptr<CoordinatorLink> link_;
  std::thread runner_;
  absl::Status status_;
  absl::Mutex mutex_;
  MonotonicCondition changed_;
  uint32_t facts_ = 0;
  WorkerHello reports_;  // the attempts that hellos report
  std::vector<std::pair<int64_t, absl::Duration>> leases_;
};

TEST_F(CoordinatorLinkTest, NoChangeIsLostBetweenAHelloAndItsStream) {
  Start();
  Run();
  for (int stream = 1; stream <= 20; ++stream) {
    // Facts are told all the time, while streams end and begin.
    auto enough = [&](const std::vector<FakeCoordinator::Stream>& streams) {
      return static_cast<int>(streams.size()) >= stream && streams.back().messages.size() >= 5;
    };
    const Deadline deadline = Soon();
    bool there = false;
    while (!there && !deadline.Expired()) {
      TellFact();
      there = enough(coordinator_.Streams());
    }
    ASSERT_TRUE(there) << stream;
    coordinator_.DropStream();
  }
  for (const FakeCoordinator::Stream& stream : coordinator_.Streams()) {
    uint64_t expected = stream.hello.slots();
    for (const WorkerMessage& message : stream.messages) {
      ASSERT_EQ(message.rank_update().progress().step(), ++expected) << "after the hello of " << stream.hello.slots();
    }
  }
}

TEST_F(CoordinatorLinkTest, LogsAreKeptForTheNextStreamAndReportsAreNot) {
  Start();
  for (int epoch = 1; epoch <= 5; ++epoch) TellLog(epoch, absl::StrCat("line ", epoch));
  TellLog(5, "line 6");
  TellFact();
  Run();
  ASSERT_TRUE(
      coordinator_.Await([](const auto& streams) { return !streams.empty() && streams[0].messages.size() >= 3; }));
  std::vector<std::string> lines;
  const FakeCoordinator::Stream stream = coordinator_.Streams()[0];
  for (const WorkerMessage& message : stream.messages) {
    ASSERT_TRUE(message.has_log()) << message.ShortDebugString();
    for (const LogLine& line : message.log().line()) lines.push_back(line.text());
  }
  EXPECT_THAT(lines, ::testing::ElementsAre("line 3", "line 4", "line 5", "line 6")) << "the oldest went";
  EXPECT_EQ(stream.hello.slots(), 1) << "the hello tells the fact";
}

TEST_F(CoordinatorLinkTest, TheLeaseCountsFromTheAcknowledgedHeartbeat) {
  const int64_t before = BootTimeNanos();
  Start();
  Run();
  ASSERT_TRUE(AwaitLeases(4));
  const int64_t after = BootTimeNanos();
  absl::MutexLock lock(&mutex_);
  int64_t last = 0;
  for (const auto& [until, length] : leases_) {
    EXPECT_EQ(length, absl::Seconds(50));
    EXPECT_GE(until, before + absl::ToInt64Nanoseconds(length));
    EXPECT_LE(until, after + absl::ToInt64Nanoseconds(length));
    EXPECT_GT(until, last);
    last = until;
  }
}

TEST_F(CoordinatorLinkTest, LeavesACoordinatorThatIsTrustedNoMore) {
  Start(absl::Seconds(10), [this](Deadline::Clock::time_point) {
    return revoked_.exchange(false) ? absl::UnauthenticatedError("its certificate was revoked") : absl::OkStatus();
  });
  Run();
  ASSERT_TRUE(AwaitLeases(4));
  EXPECT_EQ(coordinator_.Streams().size(), 1);
  revoked_ = true;
  ASSERT_TRUE(coordinator_.Await([](const auto& streams) { return streams.size() >= 2; }));
  EXPECT_FALSE(revoked_);
}

TEST_F(CoordinatorLinkTest, LeavesACoordinatorThatHangs) {
  FakeCoordinator::Manner manner;
  manner.acknowledges = false;
  coordinator_.SetManner(manner);
  Start(absl::Milliseconds(200));
  Run();
  ASSERT_TRUE(coordinator_.Await([](const auto& streams) { return streams.size() >= 2; }));
  const size_t leases = [this] {
    absl::MutexLock lock(&mutex_);
    return leases_.size();
  }();
  EXPECT_LE(leases, coordinator_.Streams().size()) << "of welcomes only";
  manner.welcomes = false;
  coordinator_.SetManner(manner);
  ASSERT_TRUE(coordinator_.Await([](const auto& streams) { return streams.size() >= 5; }));
  manner.welcomes = manner.acknowledges = true;
  coordinator_.SetManner(manner);
  EXPECT_TRUE(coordinator_.Await([](const auto& streams) { return streams.back().heartbeats.size() >= 15; }))
      << "longer than the timeout";
}

// gRPC gives an attempt 20 s, of which the link's own limit, here 10 s, leaves a half.
TEST_F(CoordinatorLinkTest, DoesNotWaitLongForAnAddressThatDoesNotAnswer) {
  const Nowhere nowhere;
  const Deadline::Clock::time_point began = Deadline::Clock::now();
  absl::Mutex mutex;
  MonotonicCondition changed;
  int tries = 0;
  CoordinatorLink::Settings settings;
  settings.coordinator = nowhere.address();
  settings.first_backoff = settings.longest_backoff = absl::Milliseconds(5);
  settings.answer_timeout = absl::Seconds(10);
  settings.connect_timeout = absl::Milliseconds(200);
  link_ = std::make_unique<CoordinatorLink>(
      settings, CoordinatorLink::Callbacks{.on_connecting =
                                               [&](WorkerHello&, const std::function<void()>& open) {
                                                 absl::MutexLock lock(&mutex);
                                                 ++tries;
                                                 changed.NotifyAll();
                                                 open();
                                               },
                                           .on_connected = [](const Welcome&) { return true; },
                                           .on_heartbeat = [](Heartbeat&) {},
                                           .on_lease = [](int64_t, absl::Duration) {},
                                           .on_message = [](const CoordinatorMessage&) {},
                                           .on_lost = [] {}});
  Run();
  {
    absl::MutexLock lock(&mutex);
    EXPECT_TRUE(changed.Wait(mutex, Soon(), [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) { return tries >= 4; }));
  }
  const absl::Duration taken = absl::FromChrono(Deadline::Clock::now() - began);
  EXPECT_GE(taken, absl::Milliseconds(600)) << "three attempts of 200 ms: the address does not refuse";
  EXPECT_LT(taken, absl::Seconds(8));
  link_->Stop();
  runner_.join();
}

TEST_F(CoordinatorLinkTest, AHeartbeatCanBeSentAtOnce) {
  FakeCoordinator::Manner manner;
  manner.heartbeat_seconds = 3600;
  coordinator_.SetManner(manner);
  Start();
  Run();
  for (size_t count = 1; count <= 3; ++count) {
    auto beaten = [&](const auto& streams) { return !streams.empty() && streams[0].heartbeats.size() >= count; };
    ASSERT_TRUE(coordinator_.Await(beaten)) << count;
    const Heartbeat beat = coordinator_.Streams()[0].heartbeats.back();
    EXPECT_EQ(beat.sequence(), static_cast<int64_t>(count));
    EXPECT_EQ(beat.incarnation(), 7);
    link_->BeatNow();
  }
}

TEST_F(CoordinatorLinkTest, AnAcknowledgementTellsHowFarApartHeartbeatsAre) {
  FakeCoordinator::Manner manner;
  manner.heartbeat_seconds = 3600;
  manner.acknowledged_seconds = 0.02;
  coordinator_.SetManner(manner);
  Start();
  Run();
  const auto beats = [](size_t count) {
    return [count](const auto& streams) { return !streams.empty() && streams[0].heartbeats.size() >= count; };
  };
  EXPECT_TRUE(coordinator_.Await(beats(20)));
}

TEST_F(CoordinatorLinkTest, AnAcknowledgementTellsHowFarApartProgressIs) {
  FakeCoordinator::Manner manner;
  manner.progress_seconds = 3600;
  coordinator_.SetManner(manner);
  Start();
  Run();
  ASSERT_TRUE(AwaitLeases(2));  // the second is that of an acknowledgement
  const auto update = [](uint32_t rank, uint64_t step) {
    WorkerMessage message;
    *message.mutable_header() = MakeHeader(1);
    message.mutable_rank_update()->set_job_id("job-1");
    message.mutable_rank_update()->set_rank(rank);
    message.mutable_rank_update()->mutable_progress()->set_step(step);
    return message;
  };
  const auto messages = [](size_t count) {
    return [count](const auto& streams) { return !streams.empty() && streams[0].messages.size() >= count; };
  };
  // The first of a rank goes at once, and so does what is held for the first time.
  link_->Send(update(0, 1));
  ASSERT_TRUE(coordinator_.Await(messages(1)));
  link_->Send(update(0, 2));
  ASSERT_TRUE(coordinator_.Await(messages(2)));
  for (uint64_t step = 3; step <= 100; ++step) link_->Send(update(0, step));
  WorkerMessage ended;
  *ended.mutable_header() = MakeHeader(1);
  ended.mutable_rank_ended()->set_job_id("job-1");
  link_->Send(ended);
  ASSERT_TRUE(coordinator_.Await(messages(4)));
  const std::vector<WorkerMessage> got = coordinator_.Streams()[0].messages;
  ASSERT_EQ(got.size(), 4);
  EXPECT_EQ(got[2].rank_update().progress().step(), 100u);
  EXPECT_TRUE(got[3].has_rank_ended());

  link_->Send(update(1, 1));
  ASSERT_TRUE(coordinator_.Await(messages(5)));
  link_->Send(update(1, 2));
  link_->Send(update(1, 3));
  manner.progress_seconds = 0;
  coordinator_.SetManner(manner);
  ASSERT_TRUE(coordinator_.Await(messages(6))) << "the next acknowledgement lets it go";
  EXPECT_EQ(coordinator_.Streams()[0].messages[5].rank_update().progress().step(), 3u);
}

// The fake coordinator takes 4 MiB, gRPC's own limit.
TEST_F(CoordinatorLinkTest, ARefusedHelloIsNotSentAgainAsItWas) {
  AttemptReport& report = *reports_.add_attempt();
  report.set_job_id("job-1");
  report.set_epoch(7);
  for (uint32_t r = 0; r < 100; ++r) {
    RankReport& rank = *report.add_rank();
    rank.set_rank(r);
    rank.set_transport(std::string(50000, 't'));
    rank.mutable_progress()->set_checkpoint_step(40);
  }
  ASSERT_GT(reports_.ByteSizeLong(), size_t{4} << 20);
  Start();
  Run();
  ASSERT_TRUE(
      coordinator_.Await([](const auto& streams) { return !streams.empty() && streams.back().heartbeats.size() > 2; }));
  const WorkerHello hello = coordinator_.Streams().back().hello;
  ASSERT_EQ(hello.attempt_size(), 1);
  ASSERT_EQ(hello.attempt(0).rank_size(), 100);
  EXPECT_EQ(hello.attempt(0).rank(99).progress().checkpoint_step(), 40u);
  EXPECT_EQ(hello.attempt(0).rank(99).transport(), "");
}

TEST_F(CoordinatorLinkTest, WhatIsNoTextDoesNotBreakTheStream) {
  Start();
  Run();
  ASSERT_TRUE(AwaitLeases(1));
  WorkerMessage message;
  *message.mutable_header() = MakeHeader(1);
  message.mutable_probe_result()->set_error("there are: caf\xe9, \x1b[2J");
  link_->Send(std::move(message));
  ASSERT_TRUE(coordinator_.Await([](const auto& streams) { return !streams.back().messages.empty(); }));
  EXPECT_EQ(coordinator_.Streams().back().messages[0].probe_result().error(), "there are: caf\\xe9, \\x1b[2J");
  EXPECT_EQ(coordinator_.Streams().size(), 1u);
}

TEST_F(CoordinatorLinkTest, EndsAfterAPermanentRefusal) {
  FakeCoordinator::Manner manner;
  manner.refusal = grpc::Status(grpc::StatusCode::FAILED_PRECONDITION, "use the same release");
  coordinator_.SetManner(manner);
  Start();
  Run();
  runner_.join();
  EXPECT_TRUE(absl::IsFailedPrecondition(status_));
  EXPECT_THAT(std::string(status_.message()), HasSubstr("the same release"));
}

}  // namespace
}  // namespace adjoin
