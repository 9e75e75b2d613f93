// Jobs that a user removes: which ones, who is asked for their files, and what outlives them.
#include "coordinator/decisions/job_removals.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/status/statusor.h"
#include "coordinator/decisions/coordination_fixture.h"

namespace adjoin {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class JobRemovalsTest : public CoordinationTest {
 protected:
  static NewJob Of(const std::string& owner, const std::string& name) {
    NewJob job;
    job.spec = Spec(name, 1);
    job.spec.set_output_dir(owner + "/" + name);
    job.spec.mutable_checkpoint()->set_dir(owner + "/checkpoints");
    job.owner = owner;
    return job;
  }
  // The id of a job that has succeeded on worker-0.
  std::string Succeeded(NewJob job) {
    const std::string id = Submit(std::move(job));
    Ready(1, id, 0);
    Ended(1, id, 0, "");
    Cleared(1, id);
    EXPECT_EQ(Job(id).state(), SUCCEEDED);
    return id;
  }
  std::string WhyNot(const std::string& job, bool files = true) {
    const absl::StatusOr<JobRemoval> removal = service_->BeginRemoval(job, files);
    return removal.ok() ? "it is removed" : std::string(removal.status().message());
  }
};

TEST_F(JobRemovalsTest, OnlyAJobThatHasEndedEverywhereIsRemoved) {
  Connect(1, "worker-0", 1);
  const std::string job = Submit(Of("alice", "net"));
  Ready(1, job, 0);
  EXPECT_THAT(WhyNot(job), HasSubstr("is running: only a job that has ended can be removed"));
  EXPECT_EQ(*service_->Cancel(job), CANCELLED);
  Settle();
  EXPECT_THAT(WhyNot(job), HasSubstr("worker worker-0 may still have processes of job-1"));
  EXPECT_THAT(WhyNot(job, /*files=*/false), HasSubstr("worker worker-0 may still have processes of job-1"));
  Ended(1, job, 0, "stopped");
  Cleared(1, job);
  EXPECT_EQ(WhyNot(job), "it is removed");
  EXPECT_THAT(WhyNot(job), HasSubstr("is being removed already"));
  EXPECT_THAT(std::string(service_->Retry(job).status().message()), HasSubstr("is being removed"));
  service_->EndRemoval(job, /*forget=*/false);
  EXPECT_EQ(*service_->Retry(job), STARTING) << "its files could not be removed, so it is as before";
}

TEST_F(JobRemovalsTest, TheWorkerOfRankZeroIsToldWhatIsTheJobs) {
  Connect(1, "worker-0", 1);
  const std::string job = Succeeded(Of("alice", "net"));
  absl::StatusOr<JobRemoval> removal = service_->BeginRemoval(job, /*files=*/true);
  ASSERT_TRUE(removal.ok()) << removal.status();
  EXPECT_EQ(removal->connection, 1);
  EXPECT_EQ(removal->worker, "worker-0");
  EXPECT_EQ(removal->folders.job_id(), job);
  EXPECT_EQ(removal->folders.owner(), "alice");
  EXPECT_EQ(removal->folders.output_dir(), "alice/net");
  EXPECT_EQ(removal->folders.checkpoint_dir(), "alice/checkpoints");
  EXPECT_NE(removal->folders.job_tag(), 0);
  EXPECT_THAT(removal->folders.artifact(), ElementsAre("model.safetensors"));
  service_->EndRemoval(job, /*forget=*/false);

  service_->WorkerDisconnected(1, "gone");
  EXPECT_THAT(WhyNot(job), HasSubstr("worker worker-0, which has the files of"));
  removal = service_->BeginRemoval(job, /*files=*/false);
  ASSERT_TRUE(removal.ok()) << removal.status();
  EXPECT_EQ(removal->connection, 0);
}

TEST_F(JobRemovalsTest, AJobThatNeverRanHasNoFiles) {
  const std::string job = Submit(Of("alice", "net"));
  EXPECT_EQ(*service_->Cancel(job), CANCELLED);
  const absl::StatusOr<JobRemoval> removal = service_->BeginRemoval(job, /*files=*/true);
  ASSERT_TRUE(removal.ok()) << removal.status();
  EXPECT_EQ(removal->connection, 0);
}

TEST_F(JobRemovalsTest, FoldersAndKeysStayTheirOwners) {
  Connect(1, "worker-0", 1);
  NewJob job = Of("alice", "net");
  job.idempotency_key = "nightly";
  const std::string first = Succeeded(job);
  ASSERT_TRUE(service_->BeginRemoval(first, /*files=*/false).ok());
  service_->EndRemoval(first, /*forget=*/true);
  EXPECT_THAT(service_->TakeForgotten(), ElementsAre(first));
  Settle();
  for (int round = 0; round < 2; ++round) {
    EXPECT_EQ(Summary(first).status().code(), absl::StatusCode::kNotFound);
    NewJob bobs = Of("bob", "net");
    bobs.spec.set_output_dir("alice/net");
    EXPECT_EQ(service_->Submit(bobs).status().code(), absl::StatusCode::kPermissionDenied);
    const absl::StatusOr<Submitted> again = service_->Submit(job);
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_TRUE(again->existed);
    EXPECT_EQ(again->job_id, first);
    Restart();  // the store has it
  }
}

TEST_F(JobRemovalsTest, ANameThatSeveralJobsHaveRemovesNone) {
  for (const char* name : {"net", "net", "other"}) {
    EXPECT_EQ(*service_->Cancel(Submit(Of("alice", name))), CANCELLED);
    Settle();
  }
  EXPECT_THAT(WhyNot("net", /*files=*/false), HasSubstr("is the name of 2 jobs"));
  EXPECT_EQ(WhyNot("other", /*files=*/false), "it is removed");
  const JobCheck nobody = [](const JobRecord&) { return absl::PermissionDeniedError("not yours"); };
  EXPECT_EQ(service_->BeginRemoval("job-1", /*files=*/false, nobody).status().message(), "not yours");
}

}  // namespace
}  // namespace adjoin
