// Daemons and coordinators that come and go, lost nodes, leases, restarts.
#include "coordinator/decisions/coordination_service.h"

#include "absl/strings/str_cat.h"
#include "coordinator/decisions/coordination_fixture.h"
#include "proto/message_limits.h"

namespace adjoin {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class CoordinationFailuresTest : public CoordinationTest {};

// A node that is lost is no reason to start again, for tests of what else it does.
constexpr char kNoRestart[] = "on: 'error'";

// ---------------------------------------------------------------------------------------------------------------------
// Daemons and coordinators that come and go

TEST_F(CoordinationFailuresTest, ABrokenConnectionEndsNothing) {
  std::string job = RunningOnTwoWorkers();
  service_->WorkerDisconnected(2, "its connection ended");
  Pass(5, {1});
  EXPECT_EQ(Job(job).state(), RUNNING);
  WorkerHello hello = Hello("worker-1", 1);
  *hello.add_attempt() = Report(job, 1);
  Connect(3, hello);
  EXPECT_THAT(Taken(CoordinatorMessage::kStopAttempt), IsEmpty());
  EXPECT_EQ(Taken(CoordinatorMessage::kConnectRanks).size(), 2) << "only those of the start";
  Pass(20, {1, 3});
  Ended(1, job, 0, "");
  Ended(3, job, 1, "");
  EXPECT_EQ(Job(job).state(), SUCCEEDED);
}

TEST_F(CoordinationFailuresTest, ARunningJobOutlivesTheCoordinator) {
  std::string job = RunningOnTwoWorkers();
  std::string waiting = Submit(Spec("waiting", 2));
  const uint64_t epoch = Job(job).epoch();
  now_ += absl::Seconds(60);
  Restart();
  EXPECT_EQ(Job(job).state(), RUNNING);
  EXPECT_EQ(Job(waiting).state(), PENDING);
  WorkerHello hello = Hello("worker-1", 1);
  *hello.add_attempt() = Report(job, 1);
  Connect(7, hello);
  Pass(20, {7});
  EXPECT_EQ(Job(job).state(), RUNNING) << "the other daemon still has time to connect";
  hello = Hello("worker-0", 1);
  *hello.add_attempt() = Report(job, 0);
  Connect(8, hello);
  EXPECT_EQ(Job(job).epoch(), epoch);
  Ended(8, job, 0, "");
  Ended(7, job, 1, "");
  EXPECT_EQ(Job(job).state(), SUCCEEDED);
  Cleared(7, job);
  Cleared(8, job);
  EXPECT_EQ(Taken(CoordinatorMessage::kAttemptAck).size(), 2);
  EXPECT_EQ(Job(waiting).state(), STARTING);
  EXPECT_GT(Job(waiting).epoch(), epoch);
}

TEST_F(CoordinationFailuresTest, TheHelloHasRanksThatEndedWhileTheCoordinatorWasAway) {
  std::string job = RunningOnTwoWorkers();
  Restart();
  for (uint32_t rank : {0, 1}) {
    WorkerHello hello = Hello(absl::StrCat("worker-", rank), 1);
    AttemptReport& report = *hello.add_attempt() = Report(job, rank);
    report.mutable_rank(0)->mutable_ended()->set_rank(rank);
    report.mutable_rank(0)->mutable_ended()->set_end(RANK_SUCCEEDED);
    report.set_cleared(true);
    Connect(10 + rank, hello);
  }
  EXPECT_EQ(Job(job).state(), SUCCEEDED);
  EXPECT_EQ(Taken(CoordinatorMessage::kAttemptAck).size(), 2);
  EXPECT_TRUE(service_->Settled(job));
}

TEST_F(CoordinationFailuresTest, LostMessagesAreSentAgain) {
  Connect(1, "worker-0", 1);
  Connect(2, "worker-1", 1);
  std::string job = Submit(Spec("net", 2));
  EXPECT_EQ(Taken(CoordinatorMessage::kStartRanks).size(), 2);
  service_->WorkerDisconnected(2, "its connection ended");
  Connect(3, "worker-1", 1);
  std::vector<Action> again = Taken(CoordinatorMessage::kStartRanks);
  ASSERT_EQ(again.size(), 1);
  EXPECT_EQ(again[0].to, 3);
  EXPECT_EQ(again[0].plan_of, 1);
  Ready(1, job, 0);
  service_->WorkerDisconnected(3, "its connection ended");
  WorkerHello hello = Hello("worker-1", 1);
  *hello.add_attempt() = Report(job, 1);
  hello.mutable_attempt(0)->mutable_rank(0)->set_connected(false);
  Connect(4, hello);
  EXPECT_EQ(Job(job).state(), RUNNING) << "the hello reports that rank 1 is ready";
  EXPECT_THAT(Taken(CoordinatorMessage::kConnectRanks), ::testing::Contains(::testing::Field(&Action::to, 4)));
}

TEST_F(CoordinationFailuresTest, AnUnknownAttemptIsStoppedAndItsEndAcknowledged) {
  WorkerHello hello = Hello("worker-0", 1);
  AttemptReport& report = *hello.add_attempt();
  report.set_job_id("job-77");
  report.set_epoch(5);
  Connect(1, hello);
  EXPECT_EQ(Taken(CoordinatorMessage::kStopAttempt).size(), 1);
  WorkerMessage cleared;
  *cleared.mutable_header() = MakeHeader(5);
  cleared.mutable_attempt_cleared()->set_job_id("job-77");
  Say(1, cleared);
  EXPECT_EQ(Taken(CoordinatorMessage::kAttemptAck).size(), 1);
}

// A daemon's own limit does not bind one that is another program.
TEST_F(CoordinationFailuresTest, AddressesThatDoNotFitOneOrderEndTheAttempt) {
  for (const uint32_t ranks : {1, 32768}) {
    const std::string worker = absl::StrCat("worker-", ranks);
    Connect(ranks, worker, ranks);
    const std::string job = Submit(Spec("net", ranks));
    ASSERT_EQ(Job(job).state(), STARTING);
    const size_t most = ranks == 1 ? kMaxAddressBytes : kMaxPlanBytes / ranks;
    const auto ready = [&](uint32_t rank, size_t bytes) {
      WorkerMessage message = Message(job);
      message.mutable_rank_ready()->set_job_id(job);
      message.mutable_rank_ready()->set_rank(rank);
      message.mutable_rank_ready()->set_transport_address(std::string(bytes, 'a'));
      Say(ranks, message);
    };
    if (ranks > 1) ready(0, most);
    EXPECT_EQ(Job(job).state(), STARTING);
    ready(ranks - 1, most + 1);
    EXPECT_EQ(Job(job).state(), FAILED);
    EXPECT_THAT(Job(job).reason(),
                HasSubstr(absl::StrCat("an address of ", most + 1, " bytes; at most ", most, " are possible")));
    EXPECT_THAT(Taken(CoordinatorMessage::kConnectRanks), IsEmpty());
    Cleared(ranks, job);
    service_->WorkerDisconnected(ranks, "gone");
    Pass(20, {});
  }
}

// ---------------------------------------------------------------------------------------------------------------------
// Lost nodes and leases

TEST_F(CoordinationFailuresTest, ALostNodesJobWaitsForConfirmationOrLease) {
  std::string job = RunningOnTwoWorkers();
  const uint64_t epoch = Job(job).epoch();
  Connect(3, "worker-2", 2);
  Pass(9, {1, 3});
  EXPECT_EQ(Job(job).state(), RUNNING);
  Pass(1, {1, 3});
  EXPECT_EQ(Job(job).state(), PENDING);
  EXPECT_EQ(Taken(CoordinatorMessage::kStopAttempt).size(), 1) << "worker-0 is told";
  EXPECT_EQ(Job(job).reason(),
            "starts again when no process of attempt 1 is left on worker-0, worker-1 after: worker-1 was "
            "lost (nothing heard for 10s) with rank 1");
  Cleared(1, job);
  Pass(114, {1, 3});
  EXPECT_EQ(Job(job).state(), PENDING) << "worker-1 may still have its process";
  Pass(2, {1, 3});
  EXPECT_EQ(Job(job).state(), STARTING);
  EXPECT_GT(Job(job).epoch(), epoch);
  EXPECT_THAT(Kinds(job), ElementsAre("submitted", "started", "running", "attempt_ended", "restarting", "released_node",
                                      "started"));
}

TEST_F(CoordinationFailuresTest, ALongerLeaseHoldsForAttemptsThatRunAlready) {
  std::string job = RunningOnTwoWorkers();
  options_.lease = absl::Seconds(300);
  Restart();
  for (uint32_t rank : {0, 1}) {
    WorkerHello hello = Hello(absl::StrCat("worker-", rank), 1);
    *hello.add_attempt() = Report(job, rank);
    Connect(10 + rank, hello);
  }
  EXPECT_EQ(Taken(CoordinatorMessage::kWelcome).back().message.welcome().lease_seconds(), 300);
  Connect(3, "worker-2", 2);
  Pass(10, {10, 3});
  Cleared(10, job);
  Pass(290, {10, 3});
  EXPECT_EQ(Job(job).state(), PENDING) << "worker-1 may still have its process";
  options_.lease = absl::Seconds(20);
  Restart();
  Connect(20, "worker-0", 1);
  Connect(21, "worker-2", 2);
  Pass(300, {20, 21});
  EXPECT_EQ(Job(job).state(), PENDING) << "this coordinator does not know when worker-1 was heard last";
  Pass(6, {20, 21});
  EXPECT_EQ(Job(job).state(), STARTING);
}

TEST_F(CoordinationFailuresTest, ALostNodeThatComesBackConfirmsTheKill) {
  std::string job = RunningOnTwoWorkers();
  Pass(10, {1});
  Cleared(1, job);
  EXPECT_EQ(Job(job).state(), PENDING);
  WorkerHello hello = Hello("worker-1", 1);
  *hello.add_attempt() = Report(job, 1);
  Connect(5, hello);
  EXPECT_EQ(Job(job).state(), PENDING);
  EXPECT_THAT(Taken(CoordinatorMessage::kStopAttempt), ::testing::Contains(::testing::Field(&Action::to, 5)));
  Cleared(5, job);
  EXPECT_EQ(Job(job).state(), STARTING);
}

TEST_F(CoordinationFailuresTest, ADaemonThatWasStartedAnewHasNoProcessesLeft) {
  std::string job = RunningOnTwoWorkers();
  service_->WorkerDisconnected(2, "its connection ended");
  Connect(5, "worker-1", 1, /*incarnation=*/2);
  EXPECT_EQ(Job(job).state(), PENDING);
  EXPECT_THAT(Job(job).reason(), HasSubstr("worker-1 was lost (its daemon was started anew) with rank 1"));
  Cleared(1, job);
  EXPECT_EQ(Job(job).state(), STARTING);
  EXPECT_EQ(Job(job).restarts_counted(), 0);
}

// As when a pod is moved while its old machine is only cut off.
TEST_F(CoordinationFailuresTest, AnotherNodeWithTheNameDoesNotEndTheLease) {
  std::string job = RunningOnTwoWorkers();
  Pass(2, {1, 2});
  service_->WorkerDisconnected(2, "its connection ended");
  WorkerHello other = Hello("worker-1", 1, /*incarnation=*/2);
  other.set_node_id("another machine");
  Connect(5, other);
  EXPECT_THAT(Job(job).reason(), HasSubstr("worker-1 was lost (its daemon was started anew) with rank 1"));
  Cleared(1, job);
  Cleared(5, job);
  Pass(124, {1, 5});
  EXPECT_EQ(Job(job).state(), PENDING) << "the first worker-1 may still have its process";
  Pass(2, {1, 5});
  EXPECT_EQ(Job(job).state(), STARTING);
}

TEST_F(CoordinationFailuresTest, APauseOfTheCoordinatorLosesNoWorker) {
  std::string job = RunningOnTwoWorkers();
  Pass(1, {1, 2});
  now_ += absl::Seconds(40);
  Tick();
  EXPECT_EQ(Job(job).state(), RUNNING);
  Pass(9, {1});
  EXPECT_EQ(Job(job).state(), RUNNING);
  Pass(1, {1});
  EXPECT_THAT(Job(job).reason(), HasSubstr("worker-1 was lost (nothing heard for 10s)"));
}

TEST_F(CoordinationFailuresTest, ASilentNodeIsWaitedForBeforeAPeersReportCounts) {
  std::string job = RunningOnTwoWorkers(kNoRestart);
  Pass(1, {1, 2});
  now_ += absl::Milliseconds(500);
  Tick();
  Ended(1, job, 0, "failed: rank 1 died", true);
  Pass(2, {1});
  EXPECT_EQ(Job(job).state(), RUNNING) << "worker-1 was not heard since";
  Pass(1, {1});
  EXPECT_THAT(Job(job).reason(), HasSubstr("worker-1 was lost (nothing heard for 3s) with rank 1"));
}

TEST_F(CoordinationFailuresTest, TimeAndStepsOutliveTheCoordinator) {
  Connect(1, "worker-0", 1);
  JobSpec spec = Spec("net", 1);
  spec.mutable_resources()->set_max_hours(1);
  spec.mutable_restart()->set_max_restarts(9);
  std::string job = Submit(spec);
  Ready(1, job, 0);
  WorkerMessage update = Message(job);
  update.mutable_rank_update()->set_job_id(job);
  update.mutable_rank_update()->mutable_progress()->set_step(40);
  now_ += absl::Seconds(20);
  Say(1, update);
  now_ += absl::Minutes(50);
  Restart();
  WorkerHello hello = Hello("worker-0", 1);
  *hello.add_attempt() = Report(job, 0);
  hello.mutable_attempt(0)->set_running_seconds(50 * 60 + 20);
  Connect(2, hello);
  Pass(500, {2});
  EXPECT_EQ(Job(job).state(), RUNNING);
  Restart();
  Ended(3, job, 0, "");
  hello.mutable_attempt(0)->mutable_rank(0)->mutable_ended()->set_end(RANK_LOST);
  hello.mutable_attempt(0)->set_running_seconds(50 * 60 + 520);
  Connect(3, hello);
  EXPECT_EQ(Job(job).state(), PENDING);
  EXPECT_EQ(stored_.jobs[0].best_step(), 40);
  Cleared(3, job);
  Ready(3, job, 0);
  EXPECT_EQ(Job(job).state(), RUNNING);
  now_ += absl::Minutes(2);
  Pass(1, {3});
  EXPECT_EQ(Job(job).reason(), "it ran for resources.max_hours, which is 1");
}

TEST_F(CoordinationFailuresTest, AFullDiskDelaysAStartAndFailsNothing) {
  Connect(1, "worker-0", 1);
  std::string job = Submit(Spec("net", 1));
  service_->SetStoreHealth(absl::UnavailableError("the disk is full"));
  Pass(300, {1});
  EXPECT_EQ(Job(job).state(), STARTING);
  service_->SetStoreHealth(absl::OkStatus());
  Pass(100, {1});
  EXPECT_EQ(Job(job).state(), STARTING);
  Pass(21, {1});
  EXPECT_THAT(Job(job).reason(), HasSubstr("did not become ready within 2m"));
}

TEST_F(CoordinationFailuresTest, ALostNodeIsNamedWhenAPeerNoticesFirst) {
  std::string job = RunningOnTwoWorkers(kNoRestart);
  service_->WorkerDisconnected(2, "its connection ended");
  Ended(1, job, 0, "failed: rank 1 died", true);
  Pass(1, {1});
  EXPECT_EQ(Job(job).state(), FAILED);
  EXPECT_EQ(Job(job).reason(),
            "worker-1 was lost (nothing heard for 1s) with rank 1; rank 0 on worker-0 failed: rank 1 died");
}

TEST_F(CoordinationFailuresTest, ASuspectDaemonGetsNothingNew) {
  Connect(1, "worker-0", 1);
  now_ += absl::Seconds(4);
  std::string job = Submit(Spec("net", 1));
  EXPECT_EQ(Job(job).state(), PENDING);
  EXPECT_EQ(List()->worker(0).state(), "suspect");
  Pass(1, {1});
  EXPECT_EQ(Job(job).state(), STARTING);
}

// ---------------------------------------------------------------------------------------------------------------------
// Restarts

TEST_F(CoordinationFailuresTest, ALostRankIsRestartedWithinItsBudgetAndBackoff) {
  std::string job = RunningOnTwoWorkers("max_restarts: 1 backoff_s: 5");
  Ended(2, job, 1, "was killed by signal 9 (SIGKILL)");
  Cleared(1, job);
  Cleared(2, job);
  EXPECT_EQ(Job(job).reason(), "starts again in 5s after: rank 1 on worker-1 was killed by signal 9 (SIGKILL)");
  Pass(4, {1, 2});
  EXPECT_EQ(Job(job).state(), PENDING);
  Pass(1, {1, 2});
  EXPECT_EQ(Job(job).state(), STARTING);
  EXPECT_EQ(Job(job).restarts_counted(), 1);
  Ready(1, job, 0);
  Ready(2, job, 1);
  Ended(2, job, 1, "was killed by signal 9 (SIGKILL)");
  EXPECT_EQ(Job(job).state(), FAILED);
  EXPECT_EQ(Job(job).reason(),
            "rank 1 on worker-1 was killed by signal 9 (SIGKILL); restart.max_restarts, which is 1, is used up");
  EXPECT_EQ(*service_->Retry(job), PENDING);
  Settle();
  Cleared(1, job);
  Cleared(2, job);
  EXPECT_EQ(Job(job).state(), STARTING);
  EXPECT_EQ(Job(job).attempts(), 3);
}

TEST_F(CoordinationFailuresTest, ALossThatIsNotFiniteEndsTheJob) {
  std::string job = RunningOnTwoWorkers("max_restarts: 9 on: 'error' on: 'rank_lost'");
  EndedAs(1, job, 0, RANK_HOPELESS, "failed: step 3: the loss is nan");
  EXPECT_EQ(Job(job).state(), FAILED);
  EXPECT_EQ(service_->Retry("job-9").status().code(), absl::StatusCode::kNotFound);
}

TEST_F(CoordinationFailuresTest, ADrainedJobStartsAgainElsewhere) {
  std::string job = RunningOnTwoWorkers(kNoRestart);
  Connect(3, "worker-2", 1);
  WorkerMessage draining = Heartbeats();
  draining.mutable_heartbeat()->set_draining(true);
  Say(2, draining);
  EndedAs(1, job, 0, RANK_DRAINED, "");
  EXPECT_EQ(Job(job).state(), RUNNING);
  EndedAs(2, job, 1, RANK_DRAINED, "");
  EXPECT_EQ(Job(job).state(), PENDING);
  Cleared(1, job);
  Cleared(2, job);
  EXPECT_EQ(Job(job).state(), STARTING);
  EXPECT_EQ(Job(job).restarts_counted(), 0);
  auto described = Describe(job);
  ASSERT_TRUE(described.ok());
  EXPECT_EQ(described->rank(0).worker(), "worker-0") << "it keeps its node";
  EXPECT_EQ(described->rank(1).worker(), "worker-2");
}

TEST_F(CoordinationFailuresTest, AStuckJobNamesTheLaggard) {
  std::string job = RunningOnTwoWorkers(kNoRestart);
  const uint64_t epoch = Job(job).epoch();
  for (int second = 0; second < 70 && Job(job).state() == RUNNING; ++second) {
    now_ += absl::Seconds(1);
    for (ConnectionId connection : {1, 2}) {
      WorkerMessage message = Heartbeats();
      AttemptPulse& attempt = *message.mutable_heartbeat()->add_attempt();
      attempt.set_job_id(job);
      attempt.set_epoch(epoch);
      RankPulse& pulse = *attempt.add_rank();
      pulse.set_rank(connection - 1);
      pulse.set_phase("training");
      pulse.set_step(7);
      pulse.set_activity(connection == 1 ? WAITING : COMPUTING);
      pulse.set_operator_(connection == 1 ? "conv1.x" : "");
      pulse.set_generation(8);
      Say(connection, message);
    }
    Tick();
  }
  EXPECT_EQ(Job(job).state(), FAILED);
  EXPECT_EQ(Job(job).reason(),
            "no step was finished for 1m: rank 1 on worker-1 computes (training, after step 7), while "
            "rank 0 waits in conv1.x, execution 8");
}

TEST_F(CoordinationFailuresTest, NothingStartsWhileTheStoreCannotBeWritten) {
  Connect(1, "worker-0", 2);
  NewJob refused;
  refused.spec = Spec("refused", 1);
  absl::StatusOr<Submitted> submitted = service_->Submit(std::move(refused));
  ASSERT_TRUE(submitted.ok());
  for (const PlanRequest& request : service_->TakePlanRequests()) {
    service_->Planned(request.job_id, MakePlan(request));
  }
  StoreChanges changes = service_->TakeChanges();
  ASSERT_EQ(changes.submissions.size(), 1);
  service_->SetStoreHealth(absl::UnavailableError("the disk is full"));
  service_->Withdraw(changes.submissions, absl::UnavailableError("the disk is full"));
  absl::Status reason;
  EXPECT_EQ(service_->AdmissionOf(submitted->job_id, &reason), Admission::kRefused);
  EXPECT_EQ(reason.message(), "the disk is full");
  EXPECT_EQ(List()->job_size(), 0);
  EXPECT_THAT(Taken(CoordinatorMessage::kStartRanks), IsEmpty());
  service_->SetStoreHealth(absl::OkStatus());
  std::string next = Submit(Spec("next", 1));
  EXPECT_EQ(Job(next).state(), STARTING);
}

}  // namespace
}  // namespace adjoin
