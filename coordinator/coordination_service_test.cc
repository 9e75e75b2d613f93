#include "coordinator/coordination_service.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <google/protobuf/text_format.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "proto/protocol.h"

namespace adjoin {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class CoordinationServiceTest : public ::testing::Test {
 protected:
  CoordinationServiceTest() {
    options_.wall_clock = [this] { return absl::FromUnixSeconds(1000) + now_; };
    options_.monotonic_clock = [this] { return now_; };
    Restart();
  }

  // Another coordinator, with what the store has.
  void Restart() {
    service_ = std::make_unique<CoordinationService>(options_);
    taken_.clear();
    service_->Restore(stored_, [this](const StoredSubmission&) {
      return CoordinationService::SpecFunctions{PlanMaker(), nullptr};
    });
    Settle();
  }

  PlanFunction PlanMaker() {
    return [this](const std::vector<DatasetSize>& sizes) -> absl::StatusOr<PlannedJob> {
      planned_sizes_ = sizes;
      if (!plan_error_.ok()) return plan_error_;
      return PlannedJob{"plan", "hash"};
    };
  }

  // Makes plans and writes changes as the hub does, until there are none.
  void Settle() {
    while (true) {
      for (PlanRequest& request : service_->TakePlanRequests()) {
        service_->Planned(request.job_id, request.plan_function(request.sizes));
      }
      StoreChanges changes = service_->TakeChanges();
      if (changes.empty()) return;
      Keep(changes);
      service_->Durable(changes.submissions);
    }
  }
  void Keep(const StoreChanges& changes) {
    for (const StoredSubmission& row : changes.submissions) {
      stored_.submissions[row.job()] = row;
      stored_.last_job = std::max(stored_.last_job, row.job());
    }
    for (const StoredJob& row : changes.jobs) {
      auto same = [&](const StoredJob& other) { return other.number() == row.number(); };
      auto found = std::find_if(stored_.jobs.begin(), stored_.jobs.end(), same);
      found == stored_.jobs.end() ? stored_.jobs.push_back(row) : void(*found = row);
    }
    for (const StoredAttempt& row : changes.attempts) stored_.attempts[row.job()] = row;
    for (const JobEvent& row : changes.events) {
      EXPECT_GT(row.sequence(), stored_.last_event);
      stored_.last_event = row.sequence();
      events_.push_back(row);
    }
    stored_.last_epoch = std::max(stored_.last_epoch, changes.last_epoch);
  }
  void Tick() {
    service_->Tick();
    Settle();
  }
  // Seconds in which these connections send heartbeats.
  void Pass(int seconds, const std::vector<ConnectionId>& alive) {
    for (int second = 0; second < seconds; ++second) {
      now_ += absl::Seconds(1);
      for (ConnectionId connection : alive) Say(connection, Heartbeats());
      Tick();
    }
  }
  static WorkerMessage Heartbeats() {
    WorkerMessage message;
    message.mutable_heartbeat()->set_sequence(1);
    return message;
  }
  void Say(ConnectionId from, const WorkerMessage& message) {
    service_->WorkerSaid(from, message);
    Settle();
  }

  static WorkerHello Hello(const std::string& name, uint32_t slots, uint64_t incarnation = 1) {
    WorkerHello hello;
    hello.set_name(name);
    hello.set_slots(slots);
    hello.set_incarnation(incarnation);
    return hello;
  }
  void Connect(ConnectionId connection, const WorkerHello& hello) {
    absl::Status status = service_->WorkerConnected(connection, hello);
    ASSERT_TRUE(status.ok()) << status;
    Settle();
  }
  void Connect(ConnectionId connection, const std::string& name, uint32_t slots, uint64_t incarnation = 1) {
    Connect(connection, Hello(name, slots, incarnation));
  }
  // A daemon's report of one rank of a running attempt.
  AttemptReport Report(const std::string& job, uint32_t rank) {
    AttemptReport report;
    report.set_job_id(job);
    report.set_epoch(Job(job).epoch());
    RankReport& said = *report.add_rank();
    said.set_rank(rank);
    said.set_pid(100 + rank);
    said.set_transport_address(absl::StrCat("address of ", rank));
    said.set_connected(true);
    return report;
  }

  static JobSpec Spec(const std::string& name, uint32_t ranks, bool with_data = false) {
    JobSpec spec;
    spec.set_name(name);
    spec.set_ranks(ranks);
    if (with_data) spec.add_dataset()->set_name("train");
    return spec;
  }

  std::string Submit(const JobSpec& spec, int priority = 0) {
    NewJob job;
    job.spec = spec;
    job.priority = priority;
    return Submit(std::move(job));
  }
  std::string Submit(NewJob job) {
    if (job.plan_function == nullptr) job.plan_function = PlanMaker();
    absl::StatusOr<Submitted> submitted = service_->Submit(std::move(job));
    EXPECT_TRUE(submitted.ok()) << submitted.status();
    Settle();
    return submitted.ok() ? submitted->job_id : "";
  }

  JobSummary Job(const std::string& id) {
    absl::StatusOr<JobSummary> summary = service_->Summary(id);
    EXPECT_TRUE(summary.ok()) << summary.status();
    return summary.ok() ? *summary : JobSummary();
  }
  std::vector<std::string> Kinds(const std::string& job) const {
    std::vector<std::string> kinds;
    for (const JobEvent& event : events_) {
      if (event.job_id() == job) kinds.push_back(event.kind());
    }
    return kinds;
  }

  // The actions since the last call that have this kind.
  std::vector<Action> Taken(CoordinatorMessage::KindCase kind) {
    for (Action& action : service_->TakeActions()) taken_.push_back(action);
    std::vector<Action> result;
    std::vector<Action> rest;
    for (Action& action : taken_) (action.message.kind_case() == kind ? result : rest).push_back(action);
    taken_ = rest;
    return result;
  }

  WorkerMessage Message(const std::string& job) {
    WorkerMessage message;
    *message.mutable_header() = MakeHeader(Job(job).epoch());
    return message;
  }
  void Ready(ConnectionId from, const std::string& job, uint32_t rank) {
    WorkerMessage message = Message(job);
    message.mutable_rank_ready()->set_job_id(job);
    message.mutable_rank_ready()->set_rank(rank);
    message.mutable_rank_ready()->set_transport_address("address of " + std::to_string(rank));
    Say(from, message);
  }
  void Ended(ConnectionId from, const std::string& job, uint32_t rank, const std::string& error, bool peer = false) {
    EndedAs(from, job, rank, error.empty() ? RANK_SUCCEEDED : peer ? RANK_PEER_FAILED : RANK_LOST, error);
  }
  void EndedAs(ConnectionId from, const std::string& job, uint32_t rank, RankEnd end, const std::string& error = "") {
    WorkerMessage message = Message(job);
    RankEnded& ended = *message.mutable_rank_ended();
    ended.set_job_id(job);
    ended.set_rank(rank);
    ended.set_end(end);
    ended.set_error(error);
    if (end == RANK_SUCCEEDED && rank == 0) ended.add_artifact("model.safetensors");
    Say(from, message);
  }
  void Cleared(ConnectionId from, const std::string& job) {
    WorkerMessage message = Message(job);
    message.mutable_attempt_cleared()->set_job_id(job);
    Say(from, message);
  }
  void Probed(ConnectionId from, const std::string& job, const std::string& error) {
    WorkerMessage message;
    *message.mutable_header() = MakeHeader();
    message.mutable_probe_result()->set_request_id(job);
    message.mutable_probe_result()->set_error(error);
    DatasetSize& size = *message.mutable_probe_result()->add_dataset();
    size.set_name("train");
    size.set_samples(100);
    Say(from, message);
  }
  // A running job of two ranks on one worker each.
  std::string RunningOnTwoWorkers(const std::string& restart = "") {
    Connect(1, "worker-0", 1);
    Connect(2, "worker-1", 1);
    JobSpec spec = Spec("net", 2);
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(restart, spec.mutable_restart()));
    std::string job = Submit(spec);
    Ready(1, job, 0);
    Ready(2, job, 1);
    EXPECT_EQ(Job(job).state(), RUNNING);
    return job;
  }

  CoordinationOptions options_;
  absl::Duration now_ = absl::Seconds(5);
  absl::Status plan_error_;
  std::vector<DatasetSize> planned_sizes_;
  std::unique_ptr<CoordinationService> service_;
  std::vector<Action> taken_;
  StoredState stored_;
  std::vector<JobEvent> events_;
};

// A node that is lost is no reason to start again, for tests of what else it does.
constexpr char kNoRestart[] = "on: 'error'";

TEST_F(CoordinationServiceTest, WaitsForAWorker) {
  std::string job = Submit(Spec("net", 2));
  EXPECT_EQ(Job(job).state(), PENDING);
  EXPECT_EQ(Job(job).reason(), "no worker is connected");
  EXPECT_EQ(Job(job).queue_position(), 1);
  Connect(1, "worker-0", 2);
  EXPECT_EQ(Job(job).state(), STARTING);
  std::vector<Action> starts = Taken(CoordinatorMessage::kStartRanks);
  ASSERT_EQ(starts.size(), 1);
  EXPECT_EQ(starts[0].message.start_ranks().rank_size(), 2);
  EXPECT_TRUE(starts[0].message.start_ranks().single_node());
  EXPECT_EQ(starts[0].message.header().epoch(), Job(job).epoch());
}

TEST_F(CoordinationServiceTest, WaitsUntilAllRanksFitAndSaysWhy) {
  Connect(1, "worker-0", 3);
  Connect(2, "worker-1", 3);
  std::string first = Submit(Spec("first", 4));
  std::string second = Submit(Spec("second", 4));
  std::string third = Submit(Spec("third", 3));
  EXPECT_EQ(Job(first).state(), STARTING);
  EXPECT_EQ(Job(second).reason(), "needs 4 slots, 2 of 6 free on 2 workers");
  EXPECT_EQ(Job(third).reason(), "needs 3 slots, 2 of 6 free on 2 workers; behind 1 other job; it could delay job-2");
  EXPECT_EQ(Job(third).queue_position(), 2);
  for (uint32_t rank = 0; rank < 3; ++rank) Ready(1, first, rank);
  Ready(2, first, 3);
  for (uint32_t rank = 0; rank < 3; ++rank) Ended(1, first, rank, "");
  Ended(2, first, 3, "");
  EXPECT_EQ(Job(first).state(), SUCCEEDED);
  EXPECT_EQ(Job(second).state(), PENDING) << "slots are free only when the daemon says that no process is left";
  Cleared(1, first);
  EXPECT_EQ(Job(second).state(), STARTING);
}

TEST_F(CoordinationServiceTest, SmallJobsFillHolesWhereTheyCannotDelayTheHead) {
  Connect(1, "worker-0", 6);
  std::string running = Submit(Spec("running", 4));
  std::string head = Submit(Spec("head", 5));
  std::string fills = Submit(Spec("fills", 1));     // the head needs the 4 to end, and then has 6 less 1
  std::string delays = Submit(Spec("delays", 1));
  EXPECT_EQ(Job(running).state(), STARTING);
  EXPECT_EQ(Job(head).state(), PENDING);
  EXPECT_EQ(Job(fills).state(), STARTING);
  EXPECT_EQ(Job(delays).state(), PENDING);
  EXPECT_THAT(Job(delays).reason(), HasSubstr("it could delay job-2"));
}

TEST_F(CoordinationServiceTest, PrioritiesComeFirstAndWithinThemTheOldest) {
  std::string low = Submit(Spec("low", 1), -1);
  std::string first = Submit(Spec("first", 1));
  std::string second = Submit(Spec("second", 1));
  std::string high = Submit(Spec("high", 1), 5);
  EXPECT_EQ(Job(high).queue_position(), 1);
  EXPECT_EQ(Job(first).queue_position(), 2);
  EXPECT_EQ(Job(second).queue_position(), 3);
  EXPECT_EQ(Job(low).queue_position(), 4);
  Connect(1, "worker-0", 2);
  EXPECT_EQ(Job(high).state(), STARTING);
  EXPECT_EQ(Job(first).state(), STARTING);
  EXPECT_EQ(Job(second).state(), PENDING);
}

TEST_F(CoordinationServiceTest, AHeldJobWaitsForItsRelease) {
  std::string job = Submit(Spec("net", 1));
  EXPECT_EQ(service_->Hold(job, true), absl::OkStatus());
  Connect(1, "worker-0", 1);
  EXPECT_EQ(Job(job).reason(), "held: `adjoin release job-1` lets it start");
  Restart();
  EXPECT_TRUE(Job(job).held());
  Connect(1, "worker-0", 1);
  EXPECT_EQ(Job(job).state(), PENDING);
  EXPECT_EQ(service_->Hold("net", false), absl::OkStatus());
  Settle();
  EXPECT_EQ(Job(job).state(), STARTING);
  EXPECT_EQ(service_->Hold(job, true).message(), "job-1 is starting: only a job that waits can be held");
}

TEST_F(CoordinationServiceTest, AnIdempotencyKeyIsOneJobs) {
  NewJob first;
  first.spec = Spec("net", 1);
  first.owner = "alice";
  first.idempotency_key = "monday";
  EXPECT_EQ(Submit(first), "job-1");
  Restart();
  first.plan_function = PlanMaker();
  absl::StatusOr<Submitted> again = service_->Submit(first);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->job_id, "job-1");
  EXPECT_TRUE(again->existed);
  NewJob other = first;
  other.spec.set_seed(2);
  EXPECT_EQ(service_->Submit(other).status().code(), absl::StatusCode::kAlreadyExists);
  other.owner = "bob";
  EXPECT_EQ(Submit(other), "job-2");
}

// ---------------------------------------------------------------------------------------------------------------------
// Daemons and coordinators that come and go

TEST_F(CoordinationServiceTest, ABrokenConnectionEndsNothing) {
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

TEST_F(CoordinationServiceTest, ARunningJobOutlivesTheCoordinator) {
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

TEST_F(CoordinationServiceTest, WhatEndedWhileTheCoordinatorWasAwayIsInTheHello) {
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

TEST_F(CoordinationServiceTest, OrdersThatWereLostAreGivenAgain) {
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
  EXPECT_EQ(Job(job).state(), RUNNING) << "the hello says that rank 1 is ready";
  EXPECT_THAT(Taken(CoordinatorMessage::kConnectRanks), ::testing::Contains(::testing::Field(&Action::to, 4)));
}

TEST_F(CoordinationServiceTest, AStrangersAttemptIsStoppedAndItsEndAcknowledged) {
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

// ---------------------------------------------------------------------------------------------------------------------
// Lost nodes and leases

TEST_F(CoordinationServiceTest, ALostNodesJobWaitsForConfirmationOrLease) {
  std::string job = RunningOnTwoWorkers();
  const uint64_t epoch = Job(job).epoch();
  Connect(3, "worker-2", 2);
  Pass(9, {1, 3});
  EXPECT_EQ(Job(job).state(), RUNNING);
  Pass(1, {1, 3});
  EXPECT_EQ(Job(job).state(), PENDING);
  EXPECT_EQ(Taken(CoordinatorMessage::kStopAttempt).size(), 1) << "worker-0 is told";
  EXPECT_EQ(Job(job).reason(), "starts again when no process of attempt 1 is left on worker-0, worker-1 after: worker-1 was "
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

TEST_F(CoordinationServiceTest, ALostNodeThatComesBackConfirmsTheKill) {
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

TEST_F(CoordinationServiceTest, ADaemonThatWasStartedAnewHasNothingLeft) {
  std::string job = RunningOnTwoWorkers();
  service_->WorkerDisconnected(2, "its connection ended");
  Connect(5, "worker-1", 1, /*incarnation=*/2);
  EXPECT_EQ(Job(job).state(), PENDING);
  EXPECT_THAT(Job(job).reason(), HasSubstr("worker-1 was lost (its daemon was started anew) with rank 1"));
  Cleared(1, job);
  EXPECT_EQ(Job(job).state(), STARTING);
  EXPECT_EQ(Job(job).restarts_counted(), 0);
}

TEST_F(CoordinationServiceTest, ALostNodeIsNamedWhenAPeerNoticesFirst) {
  std::string job = RunningOnTwoWorkers(kNoRestart);
  service_->WorkerDisconnected(2, "its connection ended");
  Ended(1, job, 0, "failed: rank 1 died", true);
  Pass(1, {1});
  EXPECT_EQ(Job(job).state(), FAILED);
  EXPECT_EQ(Job(job).reason(), "worker-1 was lost (nothing heard for 1s) with rank 1; rank 0 on worker-0 failed: rank 1 died");
}

TEST_F(CoordinationServiceTest, ASuspectDaemonGetsNothingNew) {
  Connect(1, "worker-0", 1);
  now_ += absl::Seconds(4);
  std::string job = Submit(Spec("net", 1));
  EXPECT_EQ(Job(job).state(), PENDING);
  EXPECT_EQ(service_->List().worker(0).state(), "suspect");
  Pass(1, {1});
  EXPECT_EQ(Job(job).state(), STARTING);
}

// ---------------------------------------------------------------------------------------------------------------------
// Restarts

TEST_F(CoordinationServiceTest, ALostRankIsRestartedWithinItsBudgetAndBackoff) {
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

TEST_F(CoordinationServiceTest, ALossThatIsNotFiniteEndsTheJob) {
  std::string job = RunningOnTwoWorkers("max_restarts: 9 on: 'error' on: 'rank_lost'");
  EndedAs(1, job, 0, RANK_HOPELESS, "failed: step 3: the loss is nan");
  EXPECT_EQ(Job(job).state(), FAILED);
  EXPECT_EQ(service_->Retry("job-9").status().code(), absl::StatusCode::kNotFound);
}

TEST_F(CoordinationServiceTest, ADrainedJobStartsAgainElsewhere) {
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
  auto described = service_->Describe(job);
  ASSERT_TRUE(described.ok());
  EXPECT_EQ(described->rank(0).worker(), "worker-0") << "it keeps its node";
  EXPECT_EQ(described->rank(1).worker(), "worker-2");
}

TEST_F(CoordinationServiceTest, AStuckJobNamesTheLaggard) {
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
  EXPECT_EQ(Job(job).reason(), "no step was finished for 1m: rank 1 on worker-1 computes (training, after step 7), while "
                               "rank 0 waits in conv1.x, execution 8");
}

TEST_F(CoordinationServiceTest, NothingStartsWhileTheStoreCannotBeWritten) {
  Connect(1, "worker-0", 2);
  NewJob refused;
  refused.spec = Spec("refused", 1);
  refused.plan_function = PlanMaker();
  absl::StatusOr<Submitted> submitted = service_->Submit(std::move(refused));
  ASSERT_TRUE(submitted.ok());
  for (PlanRequest& request : service_->TakePlanRequests()) {
    service_->Planned(request.job_id, request.plan_function(request.sizes));
  }
  StoreChanges changes = service_->TakeChanges();
  ASSERT_EQ(changes.submissions.size(), 1);
  service_->SetStoreWritable(false);
  service_->Withdraw(changes.submissions, absl::UnavailableError("the disk is full"));
  absl::Status reason;
  EXPECT_EQ(service_->AdmissionOf(submitted->job_id, &reason), Admission::kRefused);
  EXPECT_EQ(reason.message(), "the disk is full");
  EXPECT_EQ(service_->List().job_size(), 0);
  EXPECT_THAT(Taken(CoordinatorMessage::kStartRanks), IsEmpty());
  service_->SetStoreWritable(true);
  std::string next = Submit(Spec("next", 1));
  EXPECT_EQ(Job(next).state(), STARTING);
}

TEST_F(CoordinationServiceTest, ConnectsRanksWhenAllAreReady) {
  std::string job = RunningOnTwoWorkers();
  std::vector<Action> connects = Taken(CoordinatorMessage::kConnectRanks);
  ASSERT_EQ(connects.size(), 2);
  for (const Action& action : connects) {
    ASSERT_EQ(action.message.connect_ranks().transport_address_size(), 2);
    EXPECT_EQ(action.message.connect_ranks().transport_address(1), "address of 1");
  }
  Ended(1, job, 0, "");
  EXPECT_EQ(Job(job).state(), RUNNING);
  Ended(2, job, 1, "");
  EXPECT_EQ(Job(job).state(), SUCCEEDED);
  EXPECT_TRUE(service_->FindArtifact(job, "model.safetensors").ok());
  EXPECT_EQ(service_->FindArtifact(job, "../secret").status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(service_->FindArtifact(job, "other").status().code(), absl::StatusCode::kNotFound);
}

TEST_F(CoordinationServiceTest, FirstErrorDecidesAndStopsEveryDaemon) {
  std::string job = RunningOnTwoWorkers();
  Ended(2, job, 1, "was killed by signal 9 (SIGKILL)");
  EXPECT_EQ(Job(job).state(), FAILED);
  EXPECT_EQ(Job(job).reason(), "rank 1 on worker-1 was killed by signal 9 (SIGKILL)");
  EXPECT_EQ(Taken(CoordinatorMessage::kStopAttempt).size(), 2);
  Ended(1, job, 0, "failed: rank 1 died", true);
  EXPECT_EQ(Job(job).reason(), "rank 1 on worker-1 was killed by signal 9 (SIGKILL)");
}

TEST_F(CoordinationServiceTest, APeersReportWaitsForTheCause) {
  std::string job = RunningOnTwoWorkers();
  Ended(1, job, 0, "failed: rank 1 died", true);
  EXPECT_EQ(Job(job).state(), RUNNING);
  now_ += absl::Milliseconds(500);
  Tick();
  Ended(2, job, 1, "was killed by signal 11 (SIGSEGV)");
  EXPECT_EQ(Job(job).reason(), "rank 1 on worker-1 was killed by signal 11 (SIGSEGV)");
}

TEST_F(CoordinationServiceTest, APeersReportCountsWhenNoCauseShowsUp) {
  std::string job = RunningOnTwoWorkers();
  Ended(1, job, 0, "failed: rank 1 died", true);
  now_ += absl::Seconds(1);
  Tick();
  EXPECT_EQ(Job(job).state(), FAILED);
  EXPECT_EQ(Job(job).reason(), "rank 0 on worker-0 failed: rank 1 died");
}

TEST_F(CoordinationServiceTest, AnotherEpochIsIgnored) {
  std::string job = RunningOnTwoWorkers();
  WorkerMessage stale;
  *stale.mutable_header() = MakeHeader(Job(job).epoch() + 1);
  stale.mutable_rank_ended()->set_job_id(job);
  stale.mutable_rank_ended()->set_rank(0);
  stale.mutable_rank_ended()->set_end(RANK_LOST);
  stale.mutable_rank_ended()->set_error("was killed by signal 9 (SIGKILL)");
  Say(1, stale);
  EXPECT_EQ(Job(job).state(), RUNNING);
  EXPECT_TRUE(service_->Owns(1, job, Job(job).epoch()));
  EXPECT_FALSE(service_->Owns(1, job, Job(job).epoch() + 1));
}

TEST_F(CoordinationServiceTest, EpochsGrow) {
  Connect(1, "worker-0", 2);
  std::string first = Submit(Spec("first", 1));
  std::string second = Submit(Spec("second", 1));
  EXPECT_GT(Job(second).epoch(), Job(first).epoch());
}

TEST_F(CoordinationServiceTest, CancelStopsAndKeepsSlotsUntilCleared) {
  std::string job = RunningOnTwoWorkers();
  std::string next = Submit(Spec("next", 2));
  EXPECT_EQ(*service_->Cancel("net"), CANCELLED);
  Settle();
  EXPECT_EQ(Taken(CoordinatorMessage::kStopAttempt).size(), 2);
  EXPECT_EQ(Job(next).state(), PENDING);
  Cleared(1, job);
  Cleared(2, job);
  EXPECT_EQ(Job(next).state(), STARTING);
  EXPECT_EQ(*service_->Cancel(job), CANCELLED);
  EXPECT_EQ(service_->Cancel("job-99").status().code(), absl::StatusCode::kNotFound);
}

TEST_F(CoordinationServiceTest, CancelOfAPendingJob) {
  std::string job = Submit(Spec("net", 2));
  EXPECT_EQ(*service_->Cancel(job), CANCELLED);
  Connect(1, "worker-0", 2);
  EXPECT_EQ(Job(job).state(), CANCELLED);
  EXPECT_TRUE(Taken(CoordinatorMessage::kStartRanks).empty());
}

TEST_F(CoordinationServiceTest, RanksHaveToBecomeReadyInTime) {
  Connect(1, "worker-0", 1);
  Connect(2, "worker-1", 1);
  std::string job = Submit(Spec("net", 2));
  Ready(1, job, 0);
  for (int second = 0; second < 120; ++second) {
    EXPECT_EQ(Job(job).state(), STARTING);
    Pass(1, {1, 2});
  }
  EXPECT_EQ(Job(job).reason(), "rank 1 on worker-1 did not become ready within 2m");
}

TEST_F(CoordinationServiceTest, DataIsCheckedBeforeAJobIsAccepted) {
  Connect(1, "worker-0", 1);
  std::string job = Submit(Spec("net", 1, /*with_data=*/true));
  absl::Status reason;
  EXPECT_EQ(service_->AdmissionOf(job, &reason), Admission::kUndecided);
  EXPECT_EQ(service_->List().job_size(), 0);
  ASSERT_EQ(Taken(CoordinatorMessage::kProbeData).size(), 1);
  Probed(1, job, "");
  EXPECT_EQ(service_->AdmissionOf(job, &reason), Admission::kAccepted);
  ASSERT_EQ(planned_sizes_.size(), 1);
  EXPECT_EQ(planned_sizes_[0].samples(), 100);
  EXPECT_EQ(Job(job).state(), STARTING);
}

TEST_F(CoordinationServiceTest, BadDataRefusesTheSubmission) {
  Connect(1, "worker-0", 1);
  std::string job = Submit(Spec("net", 1, /*with_data=*/true));
  Probed(1, job, "mnist/train.gz: no such file");
  absl::Status reason;
  EXPECT_EQ(service_->AdmissionOf(job, &reason), Admission::kRefused);
  EXPECT_EQ(reason.message(), "mnist/train.gz: no such file (as worker-0 sees it)");
  EXPECT_EQ(service_->Summary(job).status().code(), absl::StatusCode::kNotFound);
}

TEST_F(CoordinationServiceTest, BadDataIsShownInTheLineThatNamesIt) {
  Connect(1, "worker-0", 1);
  NewJob submitted;
  submitted.spec = Spec("net", 1, /*with_data=*/true);
  submitted.place_of = [](const std::string& field) { return absl::StrCat("job.textproto:", field.size()); };
  std::string job = Submit(std::move(submitted));
  WorkerMessage message;
  *message.mutable_header() = MakeHeader();
  message.mutable_probe_result()->set_request_id(job);
  message.mutable_probe_result()->set_error("mnist/train.gz: no such file");
  message.mutable_probe_result()->set_field("dataset[0]");
  Say(1, message);
  absl::Status reason;
  EXPECT_EQ(service_->AdmissionOf(job, &reason), Admission::kRefused);
  EXPECT_EQ(reason.message(), "job.textproto:10: mnist/train.gz: no such file (as worker-0 sees it)");
}

TEST_F(CoordinationServiceTest, BadDataFailsAJobThatWasAcceptedWithoutAWorker) {
  std::string job = Submit(Spec("net", 1, /*with_data=*/true));
  absl::Status reason;
  EXPECT_EQ(service_->AdmissionOf(job, &reason), Admission::kAccepted);
  Connect(1, "worker-0", 1);
  EXPECT_EQ(Job(job).reason(), "its data files are being checked by worker-0");
  Probed(1, job, "mnist/train.gz: no such file");
  EXPECT_EQ(Job(job).state(), FAILED);
}

TEST_F(CoordinationServiceTest, AnotherWorkerChecksWhenTheFirstIsLostAndTheCheckHasADeadline) {
  Connect(1, "worker-0", 1);
  Connect(2, "worker-1", 1);
  std::string job = Submit(Spec("net", 1, /*with_data=*/true));
  service_->WorkerDisconnected(1, "its connection ended");
  Settle();
  std::vector<Action> probes = Taken(CoordinatorMessage::kProbeData);
  ASSERT_EQ(probes.size(), 2);
  EXPECT_EQ(probes[1].to, 2);
  Pass(30, {2});
  absl::Status reason;
  EXPECT_EQ(service_->AdmissionOf(job, &reason), Admission::kRefused);
  EXPECT_EQ(reason.code(), absl::StatusCode::kDeadlineExceeded);
}

TEST_F(CoordinationServiceTest, APlanThatTheSizesForbidRefuses) {
  Connect(1, "worker-0", 1);
  plan_error_ = absl::InvalidArgumentError("the data set is empty");
  std::string job = Submit(Spec("net", 1, /*with_data=*/true));
  Probed(1, job, "");
  absl::Status reason;
  EXPECT_EQ(service_->AdmissionOf(job, &reason), Admission::kRefused);
  EXPECT_EQ(reason, plan_error_);
}

TEST_F(CoordinationServiceTest, ANameBelongsToOneDaemon) {
  Connect(1, "worker-0", 1, /*incarnation=*/5);
  EXPECT_EQ(service_->WorkerConnected(2, Hello("worker-0", 1, 6)).code(), absl::StatusCode::kAlreadyExists);
  Connect(3, "worker-0", 1, /*incarnation=*/5);
  EXPECT_EQ(service_->List().worker_size(), 1);
}

TEST_F(CoordinationServiceTest, OnlyTheNewestEndedJobsAreRemembered) {
  options_.keep_jobs = 2;
  Restart();
  std::string running = RunningOnTwoWorkers();
  std::vector<std::string> ended;
  for (int i = 0; i < 4; ++i) {
    ended.push_back(Submit(Spec("ended", 1)));
    EXPECT_EQ(*service_->Cancel(ended.back()), CANCELLED);
  }
  std::string pending = Submit(Spec("pending", 1));
  EXPECT_THAT(service_->TakeForgotten(), ElementsAre(ended[0], ended[1]));
  EXPECT_THAT(service_->TakeForgotten(), IsEmpty());
  EXPECT_EQ(service_->Summary(ended[1]).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(Job(ended[2]).state(), CANCELLED);
  EXPECT_EQ(Job(running).state(), RUNNING);
  EXPECT_EQ(Job(pending).state(), PENDING);
}

TEST_F(CoordinationServiceTest, FilesThatALaterJobReplacedAreNotTakenForTheEarlierOnes) {
  Connect(1, "worker-0", 1);
  auto run = [this](const std::string& folder) {
    JobSpec spec = Spec("net", 1);
    spec.set_output_dir(folder);
    std::string job = Submit(spec);
    Ready(1, job, 0);
    Ended(1, job, 0, "");
    Cleared(1, job);
    EXPECT_EQ(Job(job).state(), SUCCEEDED);
    return job;
  };
  std::string first = run("out");
  std::string second = run("other");
  EXPECT_TRUE(service_->FindArtifact(first, "model.safetensors").ok());
  std::string third = run("./out/");
  EXPECT_EQ(service_->FindArtifact(first, "model.safetensors").status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(service_->FindArtifact(second, "model.safetensors").ok());
  EXPECT_TRUE(service_->FindArtifact(third, "model.safetensors").ok());
}

TEST_F(CoordinationServiceTest, JobsAreNamedByIdPrefixOrName) {
  for (int i = 0; i < 12; ++i) Submit(Spec(i < 6 ? "early" : "late", 1));
  EXPECT_EQ(service_->Summary("job-1")->job_id(), "job-1");
  EXPECT_EQ(service_->Summary("early")->job_id(), "job-6");
  EXPECT_EQ(service_->Summary("job-12")->job_id(), "job-12");
  EXPECT_EQ(service_->Summary("job").status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(service_->Summary("nothing").status().code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace adjoin
