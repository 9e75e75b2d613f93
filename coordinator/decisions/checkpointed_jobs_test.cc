// Jobs with checkpoints run on nodes that share a file system, where their checkpoints are, and write in folders of
// their own owner only.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "coordinator/decisions/coordination_fixture.h"

namespace adjoin {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;

class CheckpointedJobsTest : public CoordinationTest {
 protected:
  void ConnectOn(ConnectionId connection, const std::string& name, const std::string& output_id, uint32_t slots = 1) {
    WorkerHello hello = Hello(name, slots);
    hello.set_output_id(output_id);
    Connect(connection, hello);
  }
  static JobSpec Checkpointed(const std::string& name, uint32_t ranks) {
    JobSpec spec = Spec(name, ranks);
    spec.mutable_checkpoint()->set_dir(name + "/ckpt");
    return spec;
  }
  absl::Status TrySubmit(const JobSpec& spec, const std::string& owner = "") {
    NewJob job;
    job.spec = spec;
    job.owner = owner;
    const absl::Status status = service_->Submit(std::move(job)).status();
    Settle();
    return status;
  }
  static JobSpec Restarted(const std::string& name, uint32_t ranks) {
    JobSpec spec = Checkpointed(name, ranks);
    spec.mutable_restart()->set_max_restarts(3);
    return spec;
  }
  void SaysCheckpoint(ConnectionId from, const std::string& job, uint64_t step) {
    WorkerMessage update = Message(job);
    update.mutable_rank_update()->set_job_id(job);
    update.mutable_rank_update()->mutable_progress()->set_phase("training");
    update.mutable_rank_update()->mutable_progress()->set_step(step);
    update.mutable_rank_update()->mutable_progress()->set_checkpoint_step(step);
    Say(from, update);
  }
  void SaysOutput(ConnectionId from, const std::string& output_id) {
    WorkerMessage message = Heartbeats();
    message.mutable_heartbeat()->set_output_id(output_id);
    Say(from, message);
  }
  // Its rank 0, on `from`, runs, has a checkpoint, and is killed.
  void RunsWithCheckpointAndDies(ConnectionId from, const std::string& job) {
    Ready(from, job, 0);
    SaysCheckpoint(from, job, 40);
    Ended(from, job, 0, "was killed by signal 9 (SIGKILL)");
    Cleared(from, job);
  }
  std::vector<std::string> Texts(const std::string& kind) const {
    std::vector<std::string> texts;
    for (const JobEvent& event : events_) {
      if (event.kind() == kind) texts.push_back(event.text());
    }
    return texts;
  }
  std::string WorkerOf(const std::string& job, int rank) {
    absl::StatusOr<DescribeJobResponse> described = Describe(job);
    return described.ok() && described->rank_size() > rank ? described->rank(rank).worker() : "none";
  }
};

TEST_F(CheckpointedJobsTest, NodesThatShareNothingAreNotMixed) {
  ConnectOn(1, "worker-0", "one");
  ConnectOn(2, "worker-1", "two");
  const absl::Status refused = TrySubmit(Checkpointed("net", 2));
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("worker-0 (1 slot); worker-1 (1 slot)"));
  EXPECT_EQ(TrySubmit(Checkpointed("net", 3)), absl::OkStatus()) << "it waits for more nodes in any case";

  ConnectOn(3, "worker-2", "one");
  const std::string job = Submit(Checkpointed("net", 2), /*priority=*/1);
  EXPECT_EQ(Job(job).state(), STARTING);
  EXPECT_EQ(WorkerOf(job, 0), "worker-0");
  EXPECT_EQ(WorkerOf(job, 1), "worker-2");
}

TEST_F(CheckpointedJobsTest, TheNextAttemptRunsWhereTheCheckpointsAre) {
  ConnectOn(1, "worker-0", "one");
  ConnectOn(2, "worker-1", "two");
  JobSpec spec = Checkpointed("net", 1);
  spec.mutable_restart()->set_max_restarts(3);
  const std::string job = Submit(spec);
  ASSERT_EQ(WorkerOf(job, 0), "worker-0");
  Ready(1, job, 0);
  WorkerMessage update = Message(job);
  update.mutable_rank_update()->set_job_id(job);
  update.mutable_rank_update()->mutable_progress()->set_phase("training");
  update.mutable_rank_update()->mutable_progress()->set_step(41);
  Say(1, update);
  EXPECT_THAT(Kinds(job), Not(Contains("resumed")));

  Ended(1, job, 0, "was killed by signal 9 (SIGKILL)");
  Cleared(1, job);
  Tick();
  EXPECT_EQ(Job(job).attempts(), 2u);
  EXPECT_EQ(WorkerOf(job, 0), "worker-0");
  Ready(1, job, 0);
  update = Message(job);
  update.mutable_rank_update()->set_job_id(job);
  update.mutable_rank_update()->mutable_progress()->set_phase("training");
  update.mutable_rank_update()->mutable_progress()->set_step(35);
  update.mutable_rank_update()->mutable_progress()->set_resumed_step(35);
  Say(1, update);
  Say(1, update);
  int resumed = 0;
  for (const JobEvent& event : events_) {
    if (event.kind() != "resumed") continue;
    ++resumed;
    EXPECT_EQ(event.text(), "from the checkpoint of step 35");
  }
  EXPECT_EQ(resumed, 1);
}

TEST_F(CheckpointedJobsTest, AJobWaitsForItsNodesWhileTheyAreThere) {
  ConnectOn(1, "worker-0", "one");
  JobSpec spec = Restarted("net", 1);
  spec.mutable_restart()->set_backoff_s(5);
  const std::string job = Submit(spec);
  RunsWithCheckpointAndDies(1, job);
  const std::string other = Submit(Spec("other", 1));  // takes the slot in the pause
  EXPECT_EQ(WorkerOf(other, 0), "worker-0");
  ConnectOn(2, "worker-1", "two");
  Pass(6, {1, 2});
  EXPECT_EQ(Job(job).state(), PENDING) << "worker-1 does not have its checkpoints";
  EXPECT_THAT(Job(job).reason(), HasSubstr(", on nodes that share the output root of its checkpoints (worker-0)"));
  Ready(1, other, 0);
  Ended(1, other, 0, "");
  Cleared(1, other);
  Tick();
  EXPECT_EQ(Job(job).state(), STARTING);
  EXPECT_EQ(WorkerOf(job, 0), "worker-0");

  Ready(1, job, 0);
  service_->WorkerDisconnected(1, "gone");
  Pass(500, {2});
  EXPECT_EQ(Job(job).state(), PENDING);
  EXPECT_THAT(Job(job).reason(),
              AllOf(HasSubstr("waits for nodes that share the output root of its checkpoints (worker-0); "
                              "without them it begins anew on others in 1m"),
                    HasSubstr("worker-0 was lost")));
  EXPECT_THAT(Kinds(job), Not(Contains("begins_anew")));
  Pass(110, {2});
  EXPECT_EQ(WorkerOf(job, 0), "worker-1") << "its nodes are gone for good: better anew than never";
  EXPECT_THAT(Texts("begins_anew"),
              ElementsAre(HasSubstr("its checkpoints are on nodes that are gone: begins anew (they are with "
                                    "worker-0, ")));
  SaysCheckpoint(2, job, 7);
  EXPECT_EQ(stored_.jobs.front().home(), "two");
}

TEST_F(CheckpointedJobsTest, AJobWaitsForItsNodesAfterTheCoordinatorStartedAnew) {
  ConnectOn(1, "worker-0", "one");
  ConnectOn(2, "worker-1", "two");
  JobSpec spec = Restarted("net", 1);
  spec.mutable_restart()->set_backoff_s(5);
  const std::string job = Submit(spec);
  RunsWithCheckpointAndDies(1, job);
  Restart();
  ConnectOn(3, "worker-1", "two");
  Pass(300, {3});
  EXPECT_EQ(Job(job).state(), PENDING);
  EXPECT_THAT(Job(job).reason(), HasSubstr("waits for nodes that share the output root of its checkpoints (worker-0)"));
  const std::string other = Submit(Spec("other", 1));
  EXPECT_EQ(WorkerOf(other, 0), "worker-1") << "nobody is held up by its wait";
  ConnectOn(4, "worker-2", "one");
  EXPECT_EQ(WorkerOf(job, 0), "worker-2") << "which has its checkpoints as well";
}

TEST_F(CheckpointedJobsTest, ADrainedNodeIsWaitedFor) {
  ConnectOn(1, "worker-0", "one");
  ConnectOn(2, "worker-1", "two", 2);
  ConnectOn(3, "worker-2", "one");
  ConnectOn(4, "worker-3", "one");
  const std::string filler = Submit(Spec("filler", 2));
  ASSERT_EQ(WorkerOf(filler, 0), "worker-1");
  const std::string job = Submit(Restarted("net", 3));
  ASSERT_EQ(WorkerOf(job, 0), "worker-0");
  Ready(2, filler, 0);
  Ready(2, filler, 1);
  Ended(2, filler, 0, "");
  Ended(2, filler, 1, "");
  Cleared(2, filler);
  ConnectOn(5, "worker-4", "two");
  const ConnectionId of_rank[] = {1, 3, 4};
  for (uint32_t rank : {0, 1, 2}) Ready(of_rank[rank], job, rank);
  WorkerMessage drains = Heartbeats();
  drains.mutable_heartbeat()->set_draining(true);
  Say(1, drains);
  for (uint32_t rank : {0, 1, 2}) {
    WorkerMessage ended = Message(job);
    ended.mutable_rank_ended()->set_job_id(job);
    ended.mutable_rank_ended()->set_rank(rank);
    ended.mutable_rank_ended()->set_end(RANK_DRAINED);
    ended.mutable_rank_ended()->set_drained_step(12);
    Say(of_rank[rank], ended);
  }
  for (ConnectionId connection : of_rank) Cleared(connection, job);
  service_->WorkerDisconnected(1, "drained");
  Pass(120, {2, 3, 4, 5});
  EXPECT_EQ(Job(job).state(), PENDING) << "the drain has just written a checkpoint, which the others do not see";
  EXPECT_THAT(Job(job).reason(), HasSubstr("its checkpoints (worker-0, worker-2, worker-3)"));
  WorkerHello again = Hello("worker-0", 1, /*incarnation=*/2);
  again.set_output_id("one");
  Connect(6, again);
  EXPECT_EQ(Job(job).state(), STARTING);
  EXPECT_EQ(WorkerOf(job, 0), "worker-0");
}

TEST_F(CheckpointedJobsTest, TheGraceRunsOnlyWhileOthersCouldTakeTheJob) {
  ConnectOn(1, "worker-0", "one");
  const std::string job = Submit(Restarted("net", 1));
  RunsWithCheckpointAndDies(1, job);
  Tick();
  Ready(1, job, 0);
  service_->WorkerDisconnected(1, "the coordinator's own network is down");
  Pass(2000, {});
  ConnectOn(2, "worker-1", "two");
  Pass(300, {2});
  EXPECT_EQ(Job(job).state(), PENDING) << "worker-0 may be next to connect";
  EXPECT_TRUE(service_->Hold(job, true).ok());
  Settle();
  Pass(2000, {2});
  EXPECT_TRUE(service_->Hold(job, false).ok());
  Settle();
  Pass(300, {2});
  EXPECT_EQ(Job(job).state(), PENDING) << "while it was held it did not wait for anything";
  ConnectOn(3, "worker-0", "one");
  EXPECT_EQ(WorkerOf(job, 0), "worker-0");
  EXPECT_THAT(Kinds(job), Not(Contains("begins_anew")));
}

TEST_F(CheckpointedJobsTest, JobsAndWorkersTooManyForOneTickAreLookedAtInTurn) {
  constexpr int kJobs = 450;
  constexpr int kOthers = 99;
  options_.home_grace = absl::Seconds(30);
  Restart();
  ConnectOn(1, "worker-0", "one");
  for (int i = 0; i < kJobs; ++i) {
    JobSpec spec = Restarted(absl::StrCat("net-", i), 1);
    spec.mutable_restart()->set_backoff_s(5);
    const std::string job = Submit(spec);
    ASSERT_EQ(WorkerOf(job, 0), "worker-0");
    RunsWithCheckpointAndDies(1, job);
  }
  std::vector<ConnectionId> others;
  for (int i = 0; i < kOthers; ++i) {
    others.push_back(2 + i);
    ConnectOn(others.back(), absl::StrCat("other-", i), "two");
  }
  service_->WorkerDisconnected(1, "gone");

  const absl::Duration gone = now_;
  int seconds = 0;  // in which jobs left their home
  for (size_t left = 0; left < kJobs && now_ - gone < absl::Minutes(1);) {
    Pass(1, others);
    const size_t now = Texts("begins_anew").size();
    if (now > left) {
      EXPECT_GE(now_ - gone, options_.home_grace);
      ++seconds;
    }
    left = now;
  }
  EXPECT_THAT(Texts("begins_anew"), SizeIs(kJobs));
  EXPECT_GT(seconds, 1) << "all at once: messages would wait for it";
}

TEST_F(CheckpointedJobsTest, AJobWithoutACheckpointMayRunAnywhere) {
  ConnectOn(1, "worker-0", "one");
  const std::string job = Submit(Restarted("net", 1));
  Ready(1, job, 0);
  ConnectOn(2, "worker-1", "two");
  Ended(1, job, 0, "was killed by signal 9 (SIGKILL)");
  service_->WorkerDisconnected(1, "gone");
  Pass(140, {2});
  EXPECT_EQ(WorkerOf(job, 0), "worker-1");
  EXPECT_THAT(Kinds(job), Not(Contains("begins_anew"))) << "there was nothing to lose";
}

TEST_F(CheckpointedJobsTest, AJobThatResumesFromAnothersCheckpointsRunsWhereTheseAre) {
  ConnectOn(1, "worker-0", "one");
  const std::string first = Submit(Checkpointed("first", 1));
  Ready(1, first, 0);
  SaysCheckpoint(1, first, 40);
  ConnectOn(2, "worker-1", "two");
  JobSpec spec = Spec("second", 1);
  spec.mutable_checkpoint()->set_resume_from("first/ckpt");
  const std::string second = Submit(spec);
  EXPECT_EQ(Job(second).state(), PENDING) << "worker-1 does not see them";
  EXPECT_THAT(Job(second).reason(), HasSubstr("nodes that share the output root of worker-0, where the checkpoints are "
                                              "that it resumes from"));
  ConnectOn(3, "worker-2", "one");
  EXPECT_EQ(WorkerOf(second, 0), "worker-2");
}

TEST_F(CheckpointedJobsTest, AJobWhoseFolderNoNodeIsKnownToSeeRunsAnywhere) {
  ConnectOn(1, "worker-0", "one");
  const std::string first = Submit(Checkpointed("first", 1));
  Ready(1, first, 0);
  SaysCheckpoint(1, first, 40);
  ConnectOn(2, "worker-1", "two");
  JobSpec spec = Spec("second", 1);
  spec.mutable_checkpoint()->set_resume_from("of-no-job/ckpt");
  const std::string second = Submit(spec);
  EXPECT_EQ(WorkerOf(second, 0), "worker-1") << "somebody may have copied it there";
  Ready(2, second, 0);
  Ended(2, second, 0, "");
  Cleared(2, second);
  Ended(1, first, 0, "");
  Cleared(1, first);
  ASSERT_EQ(Job(first).state(), SUCCEEDED);
  service_->WorkerDisconnected(1, "gone");
  Pass(140, {2});
  spec.mutable_checkpoint()->set_resume_from("first/ckpt");
  EXPECT_EQ(WorkerOf(Submit(spec), 0), "worker-1") << "those who saw it are gone";
}

TEST_F(CheckpointedJobsTest, AJobResumesWhereTheLastJobOfTheFolderWroteHoweverThatIsWritten) {
  ConnectOn(1, "worker-0", "one");
  JobSpec writes = Spec("writes", 1);
  writes.mutable_checkpoint()->set_dir("shared/ckpt");
  const std::string first = Submit(writes);
  Ready(1, first, 0);
  SaysCheckpoint(1, first, 40);
  ConnectOn(2, "worker-1", "two");
  const std::string second = Submit(writes);
  ASSERT_EQ(WorkerOf(second, 0), "worker-1");
  Ready(2, second, 0);
  SaysCheckpoint(2, second, 10);
  JobSpec resumes = Spec("resumes", 1);
  resumes.mutable_checkpoint()->set_resume_from("./shared//ckpt/");
  const std::string third = Submit(resumes);
  Ended(1, first, 0, "");
  Cleared(1, first);
  EXPECT_EQ(Job(third).state(), PENDING);
  EXPECT_THAT(Job(third).reason(),
              HasSubstr("nodes that share the output root of worker-1, where the checkpoints are"));
  Ended(2, second, 0, "");
  Cleared(2, second);
  EXPECT_EQ(WorkerOf(third, 0), "worker-1");
}

TEST_F(CheckpointedJobsTest, AJobThatResumesWaitsForItsNodesForSoLongAndNoLonger) {
  options_.resume_grace = absl::Seconds(20);
  Restart();
  ConnectOn(1, "worker-0", "one");
  const std::string first = Submit(Checkpointed("first", 1));
  Ready(1, first, 0);
  SaysCheckpoint(1, first, 40);
  ConnectOn(2, "worker-1", "two");
  JobSpec spec = Spec("second", 1);
  spec.mutable_checkpoint()->set_resume_from("first/ckpt");
  const std::string second = Submit(spec);
  Pass(30, {1, 2});
  EXPECT_EQ(Job(second).state(), PENDING) << "its nodes are there, and busy";
  EXPECT_THAT(Job(second).reason(), Not(HasSubstr("it fails in")));

  service_->WorkerDisconnected(1, "gone");
  Pass(10, {2});
  EXPECT_EQ(Job(second).state(), PENDING);
  EXPECT_THAT(Job(second).reason(), HasSubstr("; without them it fails in 10s"));
  service_->SetStoreHealth(absl::UnavailableError("the disk is full"));
  Pass(60, {2});
  service_->SetStoreHealth(absl::OkStatus());
  Pass(2, {2});
  EXPECT_EQ(Job(second).state(), PENDING) << "nobody could have taken it meanwhile";
  Restart();  // which begins that time anew
  ConnectOn(3, "worker-1", "two");
  Pass(15, {3});
  EXPECT_EQ(Job(second).state(), PENDING);
  Pass(10, {3});
  EXPECT_EQ(Job(second).state(), FAILED);
  EXPECT_THAT(Job(second).reason(),
              AllOf(HasSubstr("waited 20s for nodes that share the output root of worker-0, where the checkpoints are "
                              "that it resumes from, while others could have taken it"),
                    HasSubstr(absl::StrCat("adjoin retry ", second))));

  EXPECT_TRUE(service_->Retry(second).ok());
  Settle();
  EXPECT_EQ(Job(second).state(), PENDING) << "worker-1 still does not see them";
  ConnectOn(4, "worker-2", "one");
  EXPECT_EQ(WorkerOf(second, 0), "worker-2");
}

TEST_F(CheckpointedJobsTest, AJobThatLosesItsOwnCheckpointsAndThoseItResumedFromFails) {
  options_.home_grace = options_.resume_grace = absl::Seconds(20);
  Restart();
  ConnectOn(1, "worker-0", "one");
  const std::string first = Submit(Checkpointed("first", 1));
  Ready(1, first, 0);
  SaysCheckpoint(1, first, 40);
  Ended(1, first, 0, "");
  Cleared(1, first);
  JobSpec spec = Restarted("second", 1);
  spec.mutable_checkpoint()->set_resume_from("first/ckpt");
  const std::string second = Submit(spec);
  RunsWithCheckpointAndDies(1, second);
  service_->WorkerDisconnected(1, "gone");
  ConnectOn(2, "worker-1", "two");
  Pass(200, {2});
  EXPECT_EQ(Job(second).state(), FAILED) << "worker-1 has nothing that it could begin anew with";
  EXPECT_THAT(Job(second).reason(), HasSubstr(" for nodes that share the output root of its checkpoints (worker-0)"));
  EXPECT_THAT(Kinds(second), Not(Contains("begins_anew")));
}

TEST_F(CheckpointedJobsTest, AnOutputRootThatAnswersLateStaysTheHome) {
  ConnectOn(1, "worker-0", "");
  JobSpec spec = Restarted("net", 1);
  spec.mutable_restart()->set_backoff_s(5);
  const std::string job = Submit(spec);
  Ready(1, job, 0);
  SaysCheckpoint(1, job, 40);
  SaysOutput(1, "one");
  ConnectOn(2, "worker-0", "");  // the same daemon once more: its earlier output_id holds
  EXPECT_EQ(stored_.jobs.front().home(), "one");
  Ended(2, job, 0, "was killed by signal 9 (SIGKILL)");
  Cleared(2, job);
  Restart();
  ConnectOn(3, "worker-2", "");
  Pass(10, {3});
  EXPECT_EQ(Job(job).state(), PENDING) << "nobody knows what worker-2 sees";
  SaysOutput(3, "one");
  EXPECT_EQ(WorkerOf(job, 0), "worker-2");
}

TEST_F(CheckpointedJobsTest, AnAttemptThatAnOlderCoordinatorStartedHasAHome) {
  ConnectOn(1, "worker-0", "one");
  const std::string job = Submit(Restarted("net", 1));
  Ready(1, job, 0);
  stored_.jobs.front().clear_home();
  stored_.jobs.front().clear_home_worker();
  WorkerHello hello = Hello("worker-0", 1);
  hello.set_output_id("one");
  *hello.add_attempt() = Report(job, 0);
  Restart();
  Connect(2, hello);
  SaysCheckpoint(2, job, 40);
  EXPECT_EQ(stored_.jobs.front().home(), "one");
  EXPECT_TRUE(stored_.jobs.front().has_checkpoint());
}

TEST_F(CheckpointedJobsTest, RefusesCheckpointFoldersOfOtherOwners) {
  ConnectOn(1, "worker-0", "one");
  EXPECT_EQ(TrySubmit(Checkpointed("net", 1), "alice"), absl::OkStatus());
  JobSpec mine = Spec("mine", 1);
  mine.set_output_dir("bob");
  mine.mutable_checkpoint()->set_dir("net/ckpt");
  const absl::Status refused = TrySubmit(mine, "bob");
  EXPECT_EQ(refused.code(), absl::StatusCode::kPermissionDenied);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("checkpoint.dir \"net/ckpt\" is the folder of job-"));
  mine.mutable_checkpoint()->set_dir("bob/ckpt");
  mine.mutable_checkpoint()->set_resume_from("net/ckpt");
  EXPECT_THAT(std::string(TrySubmit(mine, "bob").message()), HasSubstr("checkpoint.resume_from \"net/ckpt\""));
  mine.mutable_checkpoint()->clear_resume_from();
  EXPECT_EQ(TrySubmit(mine, "bob"), absl::OkStatus());
  mine.set_output_dir("net/ckpt/x");
  EXPECT_EQ(TrySubmit(mine, "bob").code(), absl::StatusCode::kPermissionDenied);
}

}  // namespace
}  // namespace adjoin
