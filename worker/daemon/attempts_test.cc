#include "worker/daemon/attempts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "base/boot_clock.h"
#include "base/monotonic_condition.h"
#include "proto/plan.pb.h"
#include "worker/daemon/job_paths.h"

namespace adjoin {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// A rank that records the messages that it gets.
class FakePeer final : public RankPeer {
 public:
  void Send(const DaemonMessage& message) override {
    absl::MutexLock lock(&mutex_);
    messages_.push_back(message);
  }
  std::vector<DaemonMessage> Messages() {
    absl::MutexLock lock(&mutex_);
    return messages_;
  }
  int Count(DaemonMessage::KindCase kind) {
    int count = 0;
    for (const DaemonMessage& message : Messages()) count += message.kind_case() == kind;
    return count;
  }

 private:
  absl::Mutex mutex_;
  std::vector<DaemonMessage> messages_ ABSL_GUARDED_BY(mutex_);
};

// Ranks are processes that wait until the test ends them; the test also sends their messages.
class AttemptsTest : public ::testing::Test {
 protected:
  AttemptsTest() {
    folder_ = ::testing::TempDir() + "/attempts-XXXXXX";
    EXPECT_NE(mkdtemp(folder_.data()), nullptr);
    std::ofstream(folder_ + "/rank") << R"(#!/bin/sh
name=$4-$8-$6
echo $$ > )" << folder_ << R"(/new-$name
mv )" << folder_ << R"(/new-$name )" << folder_
                                     << R"(/pid-$name
until [ -s )" << folder_ << R"(/exit-$name ]; do sleep 0.02; done
exit $(cat )" << folder_ << "/exit-$name)\n";
    chmod((folder_ + "/rank").c_str(), 0755);
    Attempts::Settings settings;
    settings.rank_binary = folder_ + "/rank";
    settings.socket = "nowhere";
    settings.data_root = settings.output_root = folder_;
    settings.stop_grace = absl::Milliseconds(20);
    settings.most_preparing = 2;
    settings.unfit = [this] { return unfit_; };
    const JobRoots roots{settings.data_root, settings.output_root, std::nullopt};
    settings.prepare = [gate = gate_, roots](const StartRanks& start) {
      absl::MutexLock lock(&gate->mutex);
      ++gate->under_way;
      gate->changed.NotifyAll();
      const bool open =
          gate->changed.Wait(gate->mutex, Deadline::After(absl::Seconds(20)), [&] { return !gate->shut; });
      --gate->under_way;
      gate->changed.NotifyAll();
      return open ? PrepareJobPaths(roots, start) : absl::DeadlineExceededError("the test does not open the gate");
    };
    settings.on_foreign_gone = [this] { ++foreign_gone_; };
    attempts_ = std::make_unique<Attempts>(settings, [this](WorkerMessage message) {
      absl::MutexLock lock(&mutex_);
      sent_.push_back(std::move(message));
      changed_.NotifyAll();
    });
    attempts_->Connected();
  }

  // Returns when all processes run that are to run.
  void Start(uint64_t epoch, int ranks, const std::string& job = "job-1", uint64_t store = 0) {
    StartOnly(epoch, ranks, job, store);
    const Deadline deadline = Deadline::After(absl::Seconds(20));
    bool starting = true;
    while (starting && !deadline.Expired()) {
      starting = false;
      const Heartbeat heartbeat = Beat();
      for (const AttemptPulse& attempt : heartbeat.attempt()) {
        if (attempt.job_id() != job || attempt.epoch() != epoch) continue;
        for (const RankPulse& rank : attempt.rank()) starting = starting || rank.process().empty();
      }
    }
    EXPECT_FALSE(starting) << job << " does not start";
  }
  void StartOnly(uint64_t epoch, int ranks, const std::string& job = "job-1", uint64_t store = 0) {
    StartRanks start;
    start.set_store_id(store);
    start.set_job_id(job);
    start.set_job_tag(1);
    start.set_world_size(ranks);
    for (int rank = 0; rank < ranks; ++rank) start.add_rank(rank);
    start.set_plan(Plan().SerializeAsString());
    attempts_->Start(epoch, start);
  }
  std::shared_ptr<FakePeer> Connect(uint64_t epoch, uint32_t rank) {
    auto peer = std::make_shared<FakePeer>();
    RankHello hello;
    hello.set_job_id("job-1");
    hello.set_rank(rank);
    hello.set_pid(1000 + rank);
    absl::Status status = attempts_->RankConnected(epoch, hello, peer);
    EXPECT_EQ(status, absl::OkStatus());
    return peer;
  }
  void Say(uint64_t epoch, uint32_t rank, const std::function<void(RankMessage&)>& fill) {
    RankMessage message;
    fill(message);
    attempts_->RankSaid({"job-1", epoch, rank}, message);
  }
  void SayResult(uint64_t epoch, uint32_t rank, RankEnd end, const std::string& error) {
    Say(epoch, rank, [&](RankMessage& m) {
      m.mutable_result()->set_end(end);
      m.mutable_result()->set_error(error);
      m.mutable_result()->set_drained_step(end == RANK_DRAINED ? 41 : 0);
    });
  }
  // Without the note of the latest attempt that was here.
  WorkerHello Hello() {
    WorkerHello hello;
    attempts_->MakeReports(hello, [] {});
    if (!hello.attempt().empty() && hello.attempt().rbegin()->rank().empty()) hello.mutable_attempt()->RemoveLast();
    return hello;
  }
  Heartbeat Beat() {
    Heartbeat heartbeat;
    attempts_->FillHeartbeat(heartbeat);
    return heartbeat;
  }
  pid_t ProcessOf(uint64_t epoch, uint32_t rank) {
    const Deadline deadline = Deadline::After(absl::Seconds(20));
    pid_t pid = 0;
    while (pid == 0 && !deadline.Expired())
      std::ifstream(absl::StrCat(folder_, "/pid-job-1-", epoch, "-", rank)) >> pid;
    EXPECT_NE(pid, 0) << "rank " << rank << " does not start";
    return pid;
  }
  void Exit(uint64_t epoch, uint32_t rank, int code) {
    std::ofstream(absl::StrCat(folder_, "/exit-job-1-", epoch, "-", rank)) << code << "\n";
    attempts_->RankDisconnected({"job-1", epoch, rank});
  }
  // Pulses are asked for until the first rank's satisfies `holds`.
  bool AwaitPulse(const std::function<bool(const RankPulse&)>& holds) {
    const Deadline deadline = Deadline::After(absl::Seconds(20));
    while (!deadline.Expired()) {
      Heartbeat heartbeat = Beat();
      if (heartbeat.attempt_size() > 0 && heartbeat.attempt(0).rank_size() > 0 && holds(heartbeat.attempt(0).rank(0))) {
        return true;
      }
    }
    return false;
  }
  // "ready", "ended RANK_LOST ...", "cleared": what the coordinator was told, in order, once `count` messages are
  // there.
  std::vector<std::string> Facts(size_t count) {
    absl::MutexLock lock(&mutex_);
    changed_.Wait(mutex_, Deadline::After(absl::Seconds(20)), [&] { return sent_.size() >= count; });
    std::vector<std::string> facts;
    for (const WorkerMessage& message : sent_) {
      if (message.has_rank_ready()) facts.push_back("ready");
      if (message.has_rank_update()) facts.push_back("update");
      if (message.has_attempt_cleared()) facts.push_back("cleared");
      if (!message.has_rank_ended()) continue;
      facts.push_back(absl::StrCat(RankEnd_Name(message.rank_ended().end()), " ", message.rank_ended().error()));
    }
    return facts;
  }
  // The check of a job's files hangs until the gate opens.
  void SetGate(bool shut) {
    absl::MutexLock lock(&gate_->mutex);
    gate_->shut = shut;
    gate_->changed.NotifyAll();
  }
  bool AwaitUnderWay(int count) {
    absl::MutexLock lock(&gate_->mutex);
    return gate_->changed.Wait(gate_->mutex, Deadline::After(absl::Seconds(20)),
                               [&] { return gate_->under_way == count; });
  }
  bool AwaitCleared() { return attempts_->WaitUntilCleared(Deadline::After(absl::Seconds(20))); }

  struct Gate {
    absl::Mutex mutex;
    MonotonicCondition changed;
    bool shut = false;
    int under_way = 0;
  };

  std::string folder_;
  std::string unfit_;
  const std::shared_ptr<Gate> gate_ = std::make_shared<Gate>();  // outlives the attempts where something still hangs
  absl::Mutex mutex_;
  MonotonicCondition changed_;
  std::vector<WorkerMessage> sent_;
  std::atomic<int> foreign_gone_{0};
  std::unique_ptr<Attempts> attempts_;
};

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

TEST_F(AttemptsTest, IgnoresStartsOfOldAttemptsAndOfRunningOnes) {
  Start(4, 1);
  Start(4, 1);
  Start(3, 1);
  EXPECT_EQ(Hello().attempt_size(), 1);
  Start(5, 2);  // while epoch 4 has a process
  const std::string dying = "RANK_LOST could not be started: processes of attempt 4 are still dying here";
  const std::string late = "RANK_LOST was not started: attempt 4 of this job was here already";
  EXPECT_THAT(Facts(5), ElementsAre(late, "cleared", dying, dying, "cleared"));
  const WorkerHello hello = Hello();
  ASSERT_EQ(hello.attempt_size(), 2);
  EXPECT_FALSE(hello.attempt(0).cleared());
  EXPECT_TRUE(hello.attempt(1).cleared());
  EXPECT_TRUE(hello.attempt(1).rank(1).ended().infrastructure());
  attempts_->Acknowledged("job-1", 5);
  Start(6, 1, "job-2");
  EXPECT_EQ(Hello().attempt_size(), 2);
  attempts_->Stop("job-1", 4, "");
  attempts_->Stop("job-2", 6, "");
  ASSERT_TRUE(AwaitCleared());
  attempts_->Acknowledged("job-1", 4);
  attempts_->Acknowledged("job-2", 6);
  Start(4, 1);  // late
  EXPECT_THAT(Hello().attempt(), IsEmpty());
  const std::vector<std::string> facts = Facts(0);
  ASSERT_GE(facts.size(), 2);
  EXPECT_EQ(facts[facts.size() - 2], "RANK_LOST was not started: attempt 5 of this job was here already") << "at once";
  Start(7, 1);
  EXPECT_EQ(Hello().attempt_size(), 1);
  attempts_->Stop("job-1", 7, "");
  ASSERT_TRUE(AwaitCleared());
  attempts_->Acknowledged("job-1", 7);
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

TEST_F(AttemptsTest, AStopThatComesBeforeItsStartIsAnsweredAndTheStartIgnored) {
  attempts_->Stop("job-1", 4, "it ended before it began");
  EXPECT_THAT(Facts(1), ElementsAre("cleared"));
  Start(4, 1, "job-1", /*store=*/77);  // the first one that this daemon hears of
  EXPECT_THAT(Hello().attempt(), IsEmpty());
  attempts_->Stop("job-1", 3, "long ago");
  Start(4, 1, "job-1", /*store=*/77);
  EXPECT_THAT(Hello().attempt(), IsEmpty());
  Start(5, 1, "job-1", /*store=*/77);
  EXPECT_EQ(Hello().attempt_size(), 1);
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

TEST_F(AttemptsTest, ADrainAsksEveryRankAndStartsNone) {
  Start(4, 2);
  auto first = Connect(4, 0);
  EXPECT_FALSE(Beat().draining());
  attempts_->Drain("the worker stops");
  attempts_->Drain("the worker stops");
  EXPECT_TRUE(Beat().draining());
  auto second = Connect(4, 1);
  EXPECT_EQ(first->Count(DaemonMessage::kDrain), 1);
  EXPECT_EQ(second->Count(DaemonMessage::kDrain), 1);
  EXPECT_TRUE(Hello().draining());
  Start(5, 1, "job-2");
  EXPECT_THAT(Facts(2), ElementsAre("RANK_LOST was not started: the worker stops", "cleared"));
  for (uint32_t rank : {0, 1}) {
    SayResult(4, rank, RANK_DRAINED, "");
    Exit(4, rank, 0);
  }
  EXPECT_TRUE(AwaitCleared());
  EXPECT_FALSE(attempts_->WaitUntilAcknowledged(Deadline::After(absl::ZeroDuration())));
  attempts_->EndWaits();
  EXPECT_FALSE(attempts_->WaitUntilAcknowledged(Deadline::After(absl::Hours(1))));
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

TEST_F(AttemptsTest, ARankThatCannotStartEndsAtOnce) {
  StartRanks start;
  start.set_job_id("job-1");
  start.add_rank(3);
  Plan plan;
  plan.mutable_spec()->set_output_dir("../elsewhere");
  start.set_plan(plan.SerializeAsString());
  attempts_->Start(4, start);
  EXPECT_TRUE(AwaitCleared());
  EXPECT_THAT(Facts(2), ElementsAre(::testing::StartsWith("RANK_LOST could not be started: "), "cleared"));
  EXPECT_FALSE(Hello().attempt(0).rank(0).ended().infrastructure()) << "the job is wrong";

  std::ofstream(folder_ + "/.adjoin-owner") << "owner: alice\n";
  StartOnly(5, 1, "job-2");
  EXPECT_TRUE(AwaitCleared());
  EXPECT_THAT(Facts(4)[2], ::testing::StartsWith("RANK_HOPELESS could not be started: "));
  unlink((folder_ + "/.adjoin-owner").c_str());
  attempts_->Acknowledged("job-2", 5);

  unlink((folder_ + "/rank").c_str());
  StartOnly(5, 1);
  EXPECT_TRUE(AwaitCleared());
  EXPECT_THAT(Facts(6)[4], ::testing::StartsWith("RANK_LOST could not be started: "));
  EXPECT_TRUE(Hello().attempt(1).rank(0).ended().infrastructure()) << "the machine is";
  EXPECT_TRUE(Hello().attempt(1).rank(0).ended().node_fault());
  EXPECT_FALSE(Hello().attempt(0).rank(0).ended().node_fault());
}

TEST_F(AttemptsTest, ANodeThatCanRunNoRanksRefusesThemWithTheReason) {
  unfit_ = "the output root /out is gone";
  StartOnly(4, 2);
  const std::string refused = "RANK_LOST could not be started: the output root /out is gone";
  EXPECT_THAT(Facts(3), ElementsAre(refused, refused, "cleared"));
  EXPECT_TRUE(Hello().attempt(0).rank(1).ended().infrastructure());
  EXPECT_TRUE(Hello().attempt(0).rank(1).ended().node_fault());
  unfit_ = "";
  Start(5, 1);
}

TEST_F(AttemptsTest, PathsThatHangHoldUpNoOtherAttempt) {
  SetGate(/*shut=*/true);
  StartOnly(4, 2);
  StartOnly(5, 1, "job-2");
  ASSERT_TRUE(AwaitUnderWay(2));
  StartOnly(6, 1, "job-3");
  EXPECT_THAT(Facts(2),
              ElementsAre("RANK_LOST could not be started: the file systems of too many other attempts do not answer",
                          "cleared"));
  attempts_->Acknowledged("job-3", 6);
  WorkerHello hello = Hello();
  ASSERT_EQ(hello.attempt_size(), 2);
  EXPECT_FALSE(hello.attempt(0).cleared());
  EXPECT_EQ(hello.attempt(0).rank_size(), 2);
  RankHello rank;
  rank.set_job_id("job-1");
  EXPECT_TRUE(absl::IsNotFound(attempts_->RankConnected(4, rank, std::make_shared<FakePeer>())));

  attempts_->Stop("job-1", 4, "cancelled");
  const std::string stopped = "RANK_PEER_FAILED was not started: cancelled";
  EXPECT_EQ(Facts(5), (std::vector<std::string>{Facts(2)[0], "cleared", stopped, stopped, "cleared"}));
  EXPECT_TRUE(Hello().attempt(0).cleared());
  SetGate(/*shut=*/false);
  ASSERT_TRUE(AwaitUnderWay(0));
  Start(5, 1, "job-2");  // it is here; awaits its process
  EXPECT_FALSE(std::ifstream(folder_ + "/pid-job-1-4-0")) << "what was stopped does not start";

  SetGate(/*shut=*/true);
  StartOnly(7, 1, "job-4");
  ASSERT_TRUE(AwaitUnderWay(1));
  attempts_->Drain("the worker stops");
  EXPECT_EQ(Facts(7)[5], "RANK_LOST was not started: the worker stops");
  attempts_->KillAll("the worker stops");
  ASSERT_TRUE(AwaitCleared());
  attempts_.reset();  // does not wait for it
  SetGate(/*shut=*/false);
}

}  // namespace
}  // namespace adjoin
