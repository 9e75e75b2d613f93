// What becomes of the attempts that run here, and what the coordinator hears of it.
#include <signal.h>

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/boot_clock.h"
#include "worker/daemon/attempts_fixture.h"

namespace adjoin {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST_F(AttemptsTest, ReportsRepeatUntilTheCoordinatorHasAcknowledged) {
  Start(4, 2);
  auto peer = Connect(4, 0);
  Say(4, 0, [](RankMessage& m) { m.set_transport_address("here"); });
  ConnectRanks connect;
  connect.set_job_id("job-1");
  attempts_->ConnectRanks(4, connect);
  attempts_->ConnectRanks(4, connect);
  EXPECT_EQ(peer->Count(DaemonMessage::kConnect), 1);
  Say(4, 0, [](RankMessage& m) { m.mutable_progress()->set_step(7); });
  Say(4, 0, [](RankMessage& m) { m.set_transport("lanes"); });
  WorkerHello hello = Hello();
  ASSERT_EQ(hello.attempt_size(), 1);
  EXPECT_FALSE(hello.attempt(0).cleared());
  ASSERT_EQ(hello.attempt(0).rank_size(), 2);
  const RankReport& first = hello.attempt(0).rank(0);
  EXPECT_EQ(first.pid(), 1000);
  EXPECT_EQ(first.transport_address(), "here");
  EXPECT_TRUE(first.connected());
  EXPECT_EQ(first.progress().step(), 7);
  EXPECT_EQ(first.transport(), "lanes");
  EXPECT_EQ(hello.attempt(0).rank(1).pid(), 0);

  attempts_->Acknowledged("job-1", 4);  // the attempt has processes: it is ignored
  attempts_->Stop("job-1", 4, "cancelled");
  ASSERT_TRUE(AwaitCleared());
  hello = Hello();
  ASSERT_EQ(hello.attempt_size(), 1);
  EXPECT_TRUE(hello.attempt(0).cleared());
  for (const RankReport& rank : hello.attempt(0).rank()) {
    EXPECT_EQ(rank.ended().end(), RANK_PEER_FAILED);
    EXPECT_THAT(rank.ended().error(), HasSubstr("SIGKILL"));
  }
  EXPECT_FALSE(attempts_->WaitUntilAcknowledged(Deadline::After(absl::ZeroDuration())));
  attempts_->Acknowledged("job-1", 4);
  EXPECT_TRUE(attempts_->WaitUntilAcknowledged(Deadline::After(absl::ZeroDuration())));
  EXPECT_THAT(Hello().attempt(), IsEmpty());
}

// The coordinator at this address has another store than before: nothing of what was here concerns it.
TEST_F(AttemptsTest, AnotherStoreEndsWhatRunsForTheOneBeforeAndHearsNothingOfIt) {
  EXPECT_TRUE(attempts_->Welcomed(77));
  Start(6, 1, "job-2", 77);
  attempts_->Stop("job-2", 6, "");
  ASSERT_TRUE(AwaitCleared());  // and not acknowledged
  Start(4, 2, "job-1", 77);
  WorkerHello hello = Hello();
  ASSERT_EQ(hello.attempt_size(), 2);
  EXPECT_EQ(hello.attempt(0).store_id(), 77);
  EXPECT_EQ(hello.store_id(), 77);
  const size_t before = Facts(0).size();

  EXPECT_FALSE(attempts_->Welcomed(88)) << "what was sent so far was not for this coordinator";
  ASSERT_TRUE(AwaitCleared());
  EXPECT_THAT(Hello().attempt(), IsEmpty());
  EXPECT_TRUE(attempts_->Welcomed(88));
  Start(4, 1, "job-1", 88);  // the numbers of the other store mean nothing here
  hello = Hello();
  ASSERT_EQ(hello.attempt_size(), 1);
  EXPECT_EQ(hello.attempt(0).store_id(), 88);
  EXPECT_FALSE(hello.attempt(0).cleared());
  EXPECT_THAT(Facts(0), ::testing::SizeIs(before)) << "the coordinator of store 88 hears nothing of store 77";
  EXPECT_EQ(foreign_gone_, 1);
}

TEST_F(AttemptsTest, EveryHelloNamesTheLatestAttemptThatWasHere) {
  EXPECT_TRUE(attempts_->Welcomed(77));
  Start(4, 1, "job-1", 77);
  attempts_->Stop("job-1", 4, "");
  ASSERT_TRUE(AwaitCleared());
  attempts_->Acknowledged("job-1", 4);
  WorkerHello hello;
  attempts_->MakeReports(hello, [] {});
  ASSERT_EQ(hello.attempt_size(), 1);
  EXPECT_EQ(hello.attempt(0).job_id(), "job-1");
  EXPECT_EQ(hello.attempt(0).epoch(), 4);
  EXPECT_EQ(hello.attempt(0).store_id(), 77);
  EXPECT_TRUE(hello.attempt(0).cleared());
}

TEST_F(AttemptsTest, TellsHowLongRanksHaveRun) {
  Start(4, 1);
  EXPECT_EQ(Beat().attempt(0).running_seconds(), 0);
  Connect(4, 0);
  adjoin::ConnectRanks connect;
  connect.set_job_id("job-1");
  connect.add_transport_address("a");
  attempts_->ConnectRanks(4, connect);
  const double first = Beat().attempt(0).running_seconds();
  EXPECT_GT(first, 0);
  EXPECT_LT(first, 60);
  EXPECT_GT(Hello().attempt(0).running_seconds(), first);
}

TEST_F(AttemptsTest, WithoutAStreamAFailedRankTakesItsPeersWithIt) {
  Start(4, 2);
  auto peer = Connect(4, 1);
  Connect(4, 0);
  SayResult(4, 0, RANK_ERROR, "no space left");
  Exit(4, 0, 1);
  EXPECT_THAT(Facts(1), ElementsAre("RANK_ERROR failed: no space left"));
  EXPECT_EQ(peer->Count(DaemonMessage::kAbort), 0) << "that is the coordinator's to decide";
  attempts_->Disconnected();  // it may not have heard
  EXPECT_EQ(peer->Count(DaemonMessage::kAbort), 1);
  ASSERT_TRUE(AwaitCleared());
  EXPECT_THAT(Facts(3), ElementsAre("RANK_ERROR failed: no space left",
                                    "RANK_PEER_FAILED was killed by signal 9 (SIGKILL)", "cleared"));

  Start(5, 1);
  attempts_->Acknowledged("job-1", 4);
  Exit(5, 0, 0);
  ASSERT_TRUE(AwaitCleared());
  Start(6, 2);
  peer = Connect(6, 1);
  kill(ProcessOf(6, 0), SIGKILL);  // while there is no stream: at once
  ASSERT_TRUE(AwaitCleared());
  EXPECT_EQ(peer->Count(DaemonMessage::kAbort), 1);
}

TEST_F(AttemptsTest, TellsWhetherTheJobOrTheNodeIsToBlame) {
  const auto end = [this] {
    EXPECT_TRUE(AwaitCleared());
    absl::MutexLock lock(&mutex_);
    RankEnded ended = sent_.front().rank_ended();
    sent_.clear();
    return ended;
  };
  Start(4, 1);
  Exit(4, 0, 1);
  RankEnded ended = end();
  EXPECT_EQ(ended.end(), RANK_LOST);
  EXPECT_TRUE(ended.infrastructure() && ended.node_fault()) << "it never asked what to run";
  Start(5, 1);
  kill(ProcessOf(5, 0), SIGKILL);
  ended = end();
  EXPECT_TRUE(ended.infrastructure());
  EXPECT_FALSE(ended.node_fault()) << "somebody killed it";
  Start(6, 1);
  Connect(6, 0);
  Exit(6, 0, 1);
  ended = end();
  EXPECT_EQ(ended.end(), RANK_LOST);
  EXPECT_FALSE(ended.infrastructure() || ended.node_fault()) << "it ran its job";
  Start(7, 1);
  Connect(7, 0);
  SayResult(7, 0, RANK_LOST, "the worker's output root is gone");
  Exit(7, 0, 1);
  ended = end();
  EXPECT_EQ(ended.end(), RANK_LOST);
  EXPECT_EQ(ended.error(), "failed: the worker's output root is gone");
  EXPECT_TRUE(ended.infrastructure()) << "the rank's own word";
}

TEST_F(AttemptsTest, WithoutAStreamARankThatSucceededLeavesItsPeersAlone) {
  attempts_->Disconnected();
  Start(4, 2);
  auto peer = Connect(4, 1);
  Connect(4, 0);
  SayResult(4, 0, RANK_SUCCEEDED, "");
  Exit(4, 0, 0);
  EXPECT_THAT(Facts(1), ElementsAre("RANK_SUCCEEDED "));
  EXPECT_EQ(peer->Count(DaemonMessage::kAbort), 0);
  SayResult(4, 1, RANK_DRAINED, "");
  Exit(4, 1, 0);
  ASSERT_TRUE(AwaitCleared());
  EXPECT_THAT(Facts(3), ElementsAre("RANK_SUCCEEDED ", "RANK_DRAINED ", "cleared"));
  EXPECT_EQ(Hello().attempt(0).rank(1).ended().drained_step(), 41);
}

TEST_F(AttemptsTest, HeartbeatsShowWhatRanksDoAndWhichAreStopped) {
  Start(4, 1);
  EXPECT_EQ(Beat().attempt(0).rank(0).activity(), STARTING_UP);
  auto peer = Connect(4, 0);
  Say(4, 0, [](RankMessage& m) {
    m.mutable_pulse()->set_rank(9);
    m.mutable_pulse()->set_activity(WAITING);
    m.mutable_pulse()->set_operator_("conv1.x");
    m.mutable_pulse()->set_step(12);
  });
  const pid_t pid = ProcessOf(4, 0);
  EXPECT_TRUE(AwaitPulse([](const RankPulse& pulse) { return pulse.process() == "running"; }));
  kill(pid, SIGSTOP);
  EXPECT_TRUE(AwaitPulse([](const RankPulse& pulse) { return pulse.process() == "stopped"; }));
  EXPECT_TRUE(AwaitPulse([](const RankPulse& pulse) { return pulse.age_seconds() > 0.05; }));
  const RankPulse pulse = Beat().attempt(0).rank(0);
  EXPECT_EQ(pulse.rank(), 0);
  EXPECT_EQ(pulse.step(), 12);
  EXPECT_EQ(pulse.operator_(), "conv1.x");
  attempts_->Stop("job-1", 4, "it hangs");
  ASSERT_TRUE(AwaitCleared()) << "a stopped process dies, too";
  EXPECT_THAT(Beat().attempt(), IsEmpty());
}

TEST_F(AttemptsTest, TheEndOfTheLeaseKillsRanksWithTheReason) {
  Start(4, 2);
  auto first = Connect(4, 0);
  EXPECT_EQ(first->Count(DaemonMessage::kLease), 0);
  const int64_t until = BootTimeNanos() + 1000000000;
  attempts_->SetLease(until, absl::Seconds(120));
  auto second = Connect(4, 1);
  for (auto& peer : {first, second}) {
    ASSERT_EQ(peer->Messages().size(), 2);
    const int lease = peer == second ? 0 : 1;  // before the orders, where there is one by then
    EXPECT_EQ(peer->Messages()[lease].lease().until_boottime_ns(), until);
    EXPECT_EQ(peer->Messages()[1 - lease].kind_case(), DaemonMessage::kStart);
  }
  const std::string why = "nothing heard from the coordinator for 120 s (its lease ran out)";
  Exit(4, 0, 71);  // as ranks do by themselves
  EXPECT_THAT(Facts(1), ElementsAre("RANK_LOST ended itself: " + why));
  attempts_->LeaseOver();
  ASSERT_TRUE(AwaitCleared());
  EXPECT_THAT(Facts(3), ElementsAre("RANK_LOST ended itself: " + why, "RANK_LOST was killed: " + why, "cleared"));
}

TEST_F(AttemptsTest, ALossThatIsNotFiniteStaysTheReasonWhateverPeersReport) {
  Start(4, 2);
  Connect(4, 0);
  Connect(4, 1);
  attempts_->Stop("job-1", 4, "rank 1 failed");
  SayResult(4, 0, RANK_HOPELESS, "the loss is nan");
  ASSERT_TRUE(AwaitCleared());
  EXPECT_EQ(Hello().attempt(0).rank(0).ended().end(), RANK_HOPELESS);
  EXPECT_EQ(Hello().attempt(0).rank(1).ended().end(), RANK_PEER_FAILED);
}

TEST_F(AttemptsTest, AnAddressThatFitsNoMessageEndsItsRank) {
  Start(4, 1);
  auto peer = Connect(4, 0);
  Say(4, 0, [](RankMessage& m) { m.set_transport_address(std::string(1 << 20, 'a')); });
  ASSERT_TRUE(AwaitCleared());
  EXPECT_THAT(
      Facts(2),
      ElementsAre(HasSubstr("RANK_ERROR failed: its transport has an address of 1048576 bytes; at most"), "cleared"));
}

TEST_F(AttemptsTest, Rank0AloneIsAskedForATrace) {
  Start(1, 2);
  const auto rank0 = Connect(1, 0), rank1 = Connect(1, 1);
  TraceRank trace;
  trace.set_job_id("job-1");
  trace.set_request_id("abc");
  trace.set_steps(5);
  attempts_->Trace(2, trace);  // of another attempt
  attempts_->Trace(1, trace);
  trace.set_job_id("job-2");
  attempts_->Trace(1, trace);
  ASSERT_EQ(rank0->Count(DaemonMessage::kTrace), 1);
  for (const DaemonMessage& message : rank0->Messages()) {
    if (!message.has_trace()) continue;
    EXPECT_EQ(message.header().epoch(), 1u);
    EXPECT_EQ(message.trace().request_id(), "abc");
    EXPECT_EQ(message.trace().steps(), 5u);
  }
  EXPECT_EQ(rank1->Count(DaemonMessage::kTrace), 0);
  attempts_->RankDisconnected({"job-1", 1, 0});
  trace.set_job_id("job-1");
  attempts_->Trace(1, trace);
  EXPECT_EQ(rank0->Count(DaemonMessage::kTrace), 1) << "its stream is over";
}

}  // namespace
}  // namespace adjoin
