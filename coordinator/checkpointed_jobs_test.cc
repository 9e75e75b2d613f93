// Jobs with checkpoints: on nodes that share a file system, where theirs are, and in nobody else's folders.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "coordinator/coordination_fixture.h"

namespace adjoin {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

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
    job.plan_function = PlanMaker();
    job.owner = owner;
    const absl::Status status = service_->Submit(std::move(job)).status();
    Settle();
    return status;
  }
  std::string WorkerOf(const std::string& job, int rank) {
    absl::StatusOr<DescribeJobResponse> described = service_->Describe(job);
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

TEST_F(CheckpointedJobsTest, ItWaitsForItsNodesWhileTheyAreThere) {
  ConnectOn(1, "worker-0", "one");
  JobSpec spec = Checkpointed("net", 1);
  spec.mutable_restart()->set_max_restarts(3);
  spec.mutable_restart()->set_backoff_s(5);
  const std::string job = Submit(spec);
  Ready(1, job, 0);
  Ended(1, job, 0, "was killed by signal 9 (SIGKILL)");
  Cleared(1, job);
  const std::string other = Submit(Spec("other", 1));  // takes the slot in the pause
  EXPECT_EQ(WorkerOf(other, 0), "worker-0");
  ConnectOn(2, "worker-1", "two");
  Pass(6, {1, 2});
  EXPECT_EQ(Job(job).state(), PENDING) << "worker-1 does not have its checkpoints";
  Ready(1, other, 0);
  Ended(1, other, 0, "");
  Cleared(1, other);
  Tick();
  EXPECT_EQ(Job(job).state(), STARTING);
  EXPECT_EQ(WorkerOf(job, 0), "worker-0");

  Ready(1, job, 0);
  service_->WorkerDisconnected(1, "gone");
  Pass(200, {2});
  EXPECT_EQ(WorkerOf(job, 0), "worker-1") << "its nodes are gone for good: better anew than never";
}

TEST_F(CheckpointedJobsTest, NobodyWritesIntoTheCheckpointsOfAnother) {
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
