// NodeAttempts that start, and those that cannot: too late, in the wrong order, on a node that is unfit or drained.
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "proto/plan.pb.h"
#include "worker/daemon/attempts_fixture.h"
#include "worker/daemon/mount_calls.h"

namespace adjoin {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

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
  EXPECT_FALSE(Hello().attempt(0).rank(1).ended().files_fault());
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
  const RankEnded refused = Hello().attempt(2).rank(0).ended();
  EXPECT_TRUE(refused.infrastructure() && refused.files_fault());
  EXPECT_FALSE(refused.node_fault()) << "it can run ranks";
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

TEST_F(AttemptsTest, AStartForWhichThereIsNoRoomWaitsInTimeAndIsNoFaultOfTheNode) {
  settings_.preparing = {
      .of_one_mount = 2, .waiting_for_one = 0, .in_all = 2, .waiting_for_thread = 8, .time = absl::Seconds(60)};
  Begin();
  SetGate(/*shut=*/true);
  StartOnly(4, 1, "job-1");
  StartOnly(5, 1, "job-2");
  ASSERT_TRUE(AwaitUnderWay(2));
  StartOnly(6, 1, "job-3");
  prepare_seconds_ = 1;
  StartOnly(7, 1, "job-4");
  EXPECT_THAT(Facts(2), ElementsAre("RANK_LOST could not be started: 2 others, for which it waited, are still at their "
                                    "files after 1s: do the file systems there answer?",
                                    "cleared"));
  const RankEnded late = Hello().attempt(3).rank(0).ended();
  EXPECT_TRUE(late.infrastructure() && late.files_fault());
  EXPECT_FALSE(late.node_fault()) << "it can run ranks";
  attempts_->Stop("job-2", 5, "cancelled");
  EXPECT_FALSE(Hello().attempt(2).cleared());
  SetGate(/*shut=*/false);
  Start(6, 1, "job-3");  // it is here; awaits its process
  attempts_->KillAll("the test ends");
  EXPECT_TRUE(AwaitCleared());
}

TEST_F(AttemptsTest, AStartForWhichThereIsNoThreadIsRefusedAtOnceAsAFaultOfTheNode) {
  settings_.start_preparing = [](const std::function<void()>&) {
    throw std::system_error(EAGAIN, std::generic_category());
  };
  Begin();
  StartOnly(4, 1);
  EXPECT_THAT(Facts(2), ElementsAre("RANK_LOST could not be started: no thread can be started for it: has the machine "
                                    "memory and processes left?",
                                    "cleared"));
  const RankEnded refused = Hello().attempt(0).rank(0).ended();
  EXPECT_TRUE(refused.infrastructure() && refused.node_fault());
  EXPECT_FALSE(refused.files_fault());
}

TEST_F(AttemptsTest, AStartThatIsStoppedWhileItWaitsForRoomNeverLooksAtItsFiles) {
  struct Looked {
    absl::Mutex mutex;
    std::vector<std::string> jobs ABSL_GUARDED_BY(mutex);
  };
  const auto looked = std::make_shared<Looked>();
  settings_.prepare = [looked, prepare = settings_.prepare](const StartRanks& start, const MountCalls::Enter& enter) {
    {
      absl::MutexLock lock(&looked->mutex);
      looked->jobs.push_back(start.job_id());
    }
    return prepare(start, enter);
  };
  settings_.preparing = {
      .of_one_mount = 2, .waiting_for_one = 0, .in_all = 1, .waiting_for_thread = 1, .time = absl::Seconds(60)};
  Begin();
  SetGate(/*shut=*/true);
  StartOnly(4, 1, "job-1");
  ASSERT_TRUE(AwaitUnderWay(1));
  StartOnly(5, 1, "job-2");
  attempts_->Stop("job-2", 5, "cancelled");
  EXPECT_THAT(Facts(2), ElementsAre("RANK_PEER_FAILED was not started: cancelled", "cleared"));
  StartOnly(6, 1, "job-3");  // waits in its place
  SetGate(/*shut=*/false);
  Start(6, 1, "job-3");  // it is here; awaits its process
  {
    absl::MutexLock lock(&looked->mutex);
    EXPECT_THAT(looked->jobs, ElementsAre("job-1", "job-3"));
  }
  attempts_->KillAll("the test ends");
  EXPECT_TRUE(AwaitCleared());
}

TEST_F(AttemptsTest, AFileSystemThatDoesNotAnswerHoldsUpItsOwnAttemptsOnly) {
  settings_.preparing = {.of_one_mount = 2, .waiting_for_one = 0, .in_all = 8, .time = absl::Seconds(60)};
  Begin();
  SetGate(/*shut=*/true, /*only_dead=*/true);
  StartOnly(4, 1, "dead-1");
  StartOnly(5, 1, "dead-2");
  ASSERT_TRUE(AwaitUnderWay(2));
  StartOnly(6, 1, "dead-3");
  EXPECT_THAT(Facts(2), ElementsAre("RANK_LOST could not be started: 2 others wait for the file system at /proc "
                                    "already: does it answer?",
                                    "cleared"));
  const RankEnded refused = Hello().attempt(2).rank(0).ended();
  EXPECT_TRUE(refused.infrastructure());
  EXPECT_FALSE(refused.node_fault()) << "other jobs can run here";
  EXPECT_TRUE(refused.files_fault());
  Start(7, 1, "job-1");
  EXPECT_FALSE(Hello().attempt(0).cleared());
  attempts_->KillAll("the worker stops");
  EXPECT_TRUE(AwaitCleared());
  attempts_.reset();  // waits for no file system
  SetGate(/*shut=*/false);
}

TEST_F(AttemptsTest, ABurstOfStartsAtASlowFileSystemCostsNoAttempt) {
  settings_.preparing = {.of_one_mount = 2, .waiting_for_one = 8, .in_all = 8, .time = absl::Seconds(60)};
  Begin();
  SetGate(/*shut=*/true, /*only_dead=*/true);
  const std::vector<std::string> jobs = {"dead-1", "dead-2", "dead-3", "dead-4", "dead-5"};
  for (size_t i = 0; i < jobs.size(); ++i) StartOnly(4 + i, 1, jobs[i]);
  ASSERT_TRUE(AwaitUnderWay(2));
  EXPECT_THAT(Facts(0), IsEmpty());
  SetGate(/*shut=*/false);
  for (size_t i = 0; i < jobs.size(); ++i) Start(4 + i, 1, jobs[i]);  // they are here; awaits their processes
  EXPECT_THAT(Facts(0), IsEmpty());
  attempts_->KillAll("the test ends");
  EXPECT_TRUE(AwaitCleared());
}

TEST_F(AttemptsTest, PathsThatDoNotAnswerInTimeEndTheirAttempt) {
  settings_.preparing = {.of_one_mount = 2, .waiting_for_one = 0, .in_all = 8, .time = absl::Seconds(2)};
  Begin();
  SetGate(/*shut=*/true, /*only_dead=*/true);
  StartOnly(4, 2, "dead-1");
  const std::string late = "RANK_LOST could not be started: the file system at /proc did not answer within 2s";
  EXPECT_THAT(Facts(3), ElementsAre(late, late, "cleared"));
  const RankEnded ended = Hello().attempt(0).rank(0).ended();
  EXPECT_TRUE(ended.infrastructure() && ended.files_fault());
  EXPECT_FALSE(ended.node_fault());

  settings_.preparing.time = absl::Seconds(60);
  prepare_seconds_ = 1;  // the coordinator's word counts
  Begin();
  StartOnly(5, 1, "dead-1");
  EXPECT_EQ(Facts(5)[3], "RANK_LOST could not be started: the file system at /proc did not answer within 1s");
  attempts_.reset();
  SetGate(/*shut=*/false);
}

TEST_F(AttemptsTest, EachRankHasAPlaceThatNoOtherHas) {
  const auto bindings = [this](const std::string& job) {
    std::vector<std::string> found;
    const WorkerHello hello = Hello();
    for (const AttemptReport& attempt : hello.attempt()) {
      if (attempt.job_id() != job) continue;
      for (const RankReport& rank : attempt.rank()) found.push_back(rank.binding());
    }
    return found;
  };
  Start(4, 1);
  Start(5, 2, "job-2");
  EXPECT_THAT(bindings("job-1"), ElementsAre("place 0"));
  EXPECT_THAT(bindings("job-2"), ElementsAre("place 1", "")) << "there are two places: the third rank runs anywhere";
  EXPECT_EQ(Processors(ProcessOf(4, 0)), std::vector<int>{Processors().front()});
  Exit(4, 0, 1);
  Facts(2);
  Start(6, 1, "job-3");
  EXPECT_THAT(bindings("job-3"), ElementsAre("place 0")) << "its rank is gone";
  for (uint64_t epoch : {5, 6}) attempts_->Stop(absl::StrCat("job-", epoch - 3), epoch, "the test ends");
  EXPECT_TRUE(attempts_->WaitUntilCleared(Deadline::After(absl::Seconds(20))));
}

}  // namespace
}  // namespace adjoin
