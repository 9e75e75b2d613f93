// Daemons that know more than the store: of another store, of a later state of this one, of the time while no
// coordinator ran. And a store that takes nothing.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "coordinator/decisions/coordination_fixture.h"

namespace adjoin {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class OtherStoresTest : public CoordinationTest {
 protected:
  OtherStoresTest() {
    stored_.store_id = 77;
    Restart();
  }
  std::string LogText() {
    std::string text;
    for (const Note& note : service_->TakeNotes()) text += note.text + "\n";
    return text;
  }
};

TEST_F(OtherStoresTest, EachJobHasATagOfItsOwnThatNoOtherStoreGives) {
  Connect(1, "worker-0", 2);
  const std::string job = Submit(Spec("a", 1));
  Submit(Spec("b", 1));
  ASSERT_THAT(stored_.jobs, SizeIs(2));
  EXPECT_NE(stored_.jobs[0].tag(), 0);
  EXPECT_NE(stored_.jobs[0].tag(), stored_.jobs[1].tag());
  const std::vector<Action> starts = Taken(CoordinatorMessage::kStartRanks);
  ASSERT_THAT(starts, SizeIs(2));
  EXPECT_EQ(starts[0].message.start_ranks().job_tag(), stored_.jobs[0].tag());

  const StoredState earlier = stored_;
  stored_ = StoredState();  // a copy from before the job
  stored_.store_id = 77;
  Restart();
  Connect(1, "worker-0", 2, 2);
  EXPECT_EQ(Submit(Spec("another", 1)), job);
  EXPECT_NE(stored_.jobs[0].tag(), earlier.jobs[0].tag());
}

TEST_F(OtherStoresTest, ARestartedCoordinatorSendsTheTagThatTheJobHas) {
  Connect(1, "worker-0", 1);
  Submit(Spec("a", 1));
  const uint64_t tag = stored_.jobs[0].tag();
  Restart();
  Connect(1, "worker-0", 1);  // it has lost the message, and gets it again
  const std::vector<Action> starts = Taken(CoordinatorMessage::kStartRanks);
  ASSERT_THAT(starts, SizeIs(1));
  EXPECT_EQ(starts[0].message.start_ranks().job_tag(), tag);
}

TEST_F(OtherStoresTest, TheWelcomeNamesTheStore) {
  WorkerHello hello = Hello("worker-0", 1);
  hello.set_store_id(99);
  Connect(1, hello);
  const std::vector<Action> welcomes = Taken(CoordinatorMessage::kWelcome);
  ASSERT_THAT(welcomes, SizeIs(1));
  EXPECT_EQ(welcomes[0].message.welcome().store_id(), 77);
  EXPECT_THAT(LogText(), HasSubstr("worked for a coordinator with another store"));
}

// The empty state beside a living daemon: job-1 of epoch 1 is another store's.
TEST_F(OtherStoresTest, ReportsOfAnotherStoreEndNothingHere) {
  Connect(1, "worker-0", 1);
  const std::string job = Submit(Spec("mine", 1));
  Taken(CoordinatorMessage::kStartRanks);
  WorkerHello hello = Hello("worker-0", 1);
  *hello.add_attempt() = Report(job, 0);
  hello.mutable_attempt(0)->set_store_id(99);
  RankEnded& ended = *hello.mutable_attempt(0)->mutable_rank(0)->mutable_ended();
  ended.set_job_id(job);
  ended.set_end(RANK_ERROR);
  ended.set_error("failed: the end of another store's job");
  hello.mutable_attempt(0)->set_cleared(true);
  Connect(2, hello);
  EXPECT_EQ(Job(job).state(), STARTING) << Job(job).reason();
  EXPECT_THAT(Taken(CoordinatorMessage::kStopAttempt), IsEmpty());
  EXPECT_THAT(Taken(CoordinatorMessage::kAttemptAck), IsEmpty());
  EXPECT_THAT(Taken(CoordinatorMessage::kStartRanks), SizeIs(1)) << "the daemon did not have it";
}

// After --accept-loss the store has another id, and daemons still run what it had started.
TEST_F(OtherStoresTest, AJobStartsAgainOnlyWhenTheDaemonHasEndedItsAttemptOfTheOtherStore) {
  const std::string job = RunningOnTwoWorkers();
  WorkerHello hello = Hello("worker-0", 1);
  *hello.add_attempt() = Report(job, 0);
  hello.mutable_attempt(0)->set_store_id(77);
  stored_.store_id = 78;
  Restart();
  Connect(1, hello);
  EXPECT_EQ(Job(job).state(), RUNNING) << "its processes may live";
  Connect(3, "worker-0", 1);
  EXPECT_EQ(Job(job).state(), PENDING);
  EXPECT_THAT(Job(job).reason(), HasSubstr("is left on worker-1"));
  Connect(2, "worker-1", 1);
  EXPECT_EQ(Job(job).state(), STARTING);
}

TEST_F(OtherStoresTest, NumbersGoOnBeyondWhatADaemonHasSeenOfTheSameStore) {
  WorkerHello hello = Hello("worker-0", 1);
  AttemptReport& latest = *hello.add_attempt();
  latest.set_job_id("job-40");
  latest.set_epoch(50);
  latest.set_store_id(77);
  latest.set_cleared(true);
  Connect(1, hello);
  EXPECT_THAT(LogText(), HasSubstr("the store is older than it was: worker worker-0 had attempt 50 of job-40"));
  Restart();  // what was skipped is kept
  Connect(1, "worker-0", 1);
  const std::string job = Submit(Spec("new", 1));
  EXPECT_EQ(job, "job-1040");
  EXPECT_GT(Job(job).epoch(), 50);
}

TEST_F(OtherStoresTest, NonsenseOfADaemonExhaustsNoNumbers) {
  WorkerHello hello = Hello("worker-0", 1);
  for (const uint64_t epoch : {uint64_t{1} << 40, ~uint64_t{0}}) {
    AttemptReport& report = *hello.add_attempt();
    report.set_job_id("job-18446744073709551615");
    report.set_epoch(epoch);
    report.set_store_id(77);
  }
  Connect(1, hello);
  EXPECT_EQ(Submit(Spec("new", 1)), "job-1");
  EXPECT_EQ(Job("job-1").epoch(), 1);
}

// resources.max_hours is about hours that ranks run, by clocks that nobody sets.
TEST_F(OtherStoresTest, AWallClockDaysAheadDoesNotEndAJob) {
  Connect(1, "worker-0", 1);
  JobSpec spec = Spec("net", 1);
  spec.mutable_resources()->set_max_hours(1);
  const std::string job = Submit(spec);
  Ready(1, job, 0);
  Pass(3, {1});
  WorkerHello hello = Hello("worker-0", 1);
  *hello.add_attempt() = Report(job, 0);
  hello.mutable_attempt(0)->set_running_seconds(3);
  wall_ahead_ = absl::Hours(48);
  Restart();
  Connect(1, hello);
  Pass(3, {1});
  EXPECT_EQ(Job(job).state(), RUNNING) << Job(job).reason();

  wall_ahead_ = -absl::Hours(48);  // and one that is set back gives it no more time
  hello.mutable_attempt(0)->set_running_seconds(3598);
  Restart();
  Connect(1, hello);
  Pass(1, {1});
  EXPECT_EQ(Job(job).state(), RUNNING);
  Pass(2, {1});
  EXPECT_EQ(Job(job).state(), FAILED);
  EXPECT_THAT(Job(job).reason(), HasSubstr("resources.max_hours"));
}

TEST_F(OtherStoresTest, TheTimeThatAnAttemptHasRunIsInTheStore) {
  Connect(1, "worker-0", 1);
  const std::string job = Submit(Spec("net", 1));
  Ready(1, job, 0);
  Pass(30, {1});
  WorkerMessage update = Message(job);
  update.mutable_rank_update()->set_job_id(job);
  update.mutable_rank_update()->mutable_progress()->set_step(5);
  Say(1, update);
  EXPECT_DOUBLE_EQ(stored_.attempts.at(1).running_seconds(), 30);
}

TEST_F(OtherStoresTest, WhileTheStoreTakesNothingEverybodyIsTold) {
  Connect(1, "worker-0", 4);
  service_->SetStoreHealth(absl::UnavailableError("the store cannot be used: disk I/O error"));
  const std::string job = Submit(Spec("net", 1));
  EXPECT_EQ(Job(job).reason(), "no job starts while the store cannot be used: disk I/O error");
  EXPECT_THAT(List()->notice(), HasSubstr("disk I/O error"));
  service_->SetStoreHealth(absl::OkStatus());
  Tick();
  EXPECT_EQ(Job(job).state(), STARTING);
  EXPECT_EQ(List()->notice(), "");
}

TEST_F(OtherStoresTest, AJobWhoseRowsCannotBeWrittenFailsAndItsSlotsAreFree) {
  const std::string job = RunningOnTwoWorkers();
  service_->FailUnwritable(1, absl::InvalidArgumentError("too large for the store"));
  Settle();
  EXPECT_EQ(Job(job).state(), FAILED);
  EXPECT_EQ(Job(job).reason(), "its state cannot be stored: too large for the store");
  EXPECT_THAT(Taken(CoordinatorMessage::kStopAttempt), SizeIs(2));
  EXPECT_THAT(Kinds(job), Contains("failed"));
  Cleared(1, job);
  Cleared(2, job);
  const std::string next = Submit(Spec("net", 2));
  EXPECT_EQ(Job(next).state(), STARTING);
  service_->FailUnwritable(1, absl::InvalidArgumentError("too large for the store"));  // ended already
  service_->FailUnwritable(99, absl::InvalidArgumentError("unknown"));
}

}  // namespace
}  // namespace adjoin
