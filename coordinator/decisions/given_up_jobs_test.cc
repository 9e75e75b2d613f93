// Jobs whose users gave up before they were accepted.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "coordinator/decisions/coordination_fixture.h"

namespace adjoin {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class GivenUpJobsTest : public CoordinationTest {
 protected:
  const absl::Status kGone = absl::CancelledError("the client has gone");

  NewJob New(bool with_data, const std::string& key = "") {
    NewJob job;
    job.spec = Spec("given-up", 1, with_data);
    job.idempotency_key = key;
    return job;
  }
  // As Submit, but no plan is made.
  std::string SubmitOnly(NewJob job) {
    absl::StatusOr<Submitted> submitted = service_->Submit(std::move(job));
    EXPECT_TRUE(submitted.ok()) << submitted.status();
    return submitted.ok() ? submitted->job_id : "";
  }
  Admission AdmissionOf(const std::string& job) {
    absl::Status reason;
    return service_->AdmissionOf(job, &reason);
  }
  void ExpectNoJob() {
    Settle();
    EXPECT_EQ(List()->job_size(), 0);
    EXPECT_THAT(stored_.jobs, IsEmpty());
    EXPECT_THAT(stored_.submissions, IsEmpty());
  }
};

TEST_F(GivenUpJobsTest, AJobWhoseDataIsCheckedIsForgotten) {
  Connect(1, "worker-0", 1);
  const std::string job = SubmitOnly(New(/*with_data=*/true));
  service_->Abandon(job, kGone);
  EXPECT_EQ(AdmissionOf(job), Admission::kRefused);
  WorkerMessage answer;
  answer.mutable_probe_result()->set_request_id(job);
  Say(1, answer);
  ExpectNoJob();
}

TEST_F(GivenUpJobsTest, ThePlanOfSuchAJobIsDropped) {
  const std::string job = SubmitOnly(New(/*with_data=*/false));
  EXPECT_EQ(AdmissionOf(job), Admission::kPlanning);
  EXPECT_THAT(service_->TakePlanRequests(), SizeIs(1));
  service_->Abandon(job, kGone);
  EXPECT_THAT(service_->TakeDroppedPlans(), ElementsAre(job));
  service_->Planned(job, PlannedJob{"plan", "hash"});  // it was made in the same moment
  ExpectNoJob();
}

TEST_F(GivenUpJobsTest, AJobStaysWhileAnotherCallWithItsKeyWaits) {
  const std::string job = SubmitOnly(New(/*with_data=*/false, "key"));
  EXPECT_EQ(SubmitOnly(New(/*with_data=*/false, "key")), job);
  service_->Abandon(job, kGone);
  EXPECT_EQ(AdmissionOf(job), Admission::kPlanning);
  EXPECT_THAT(service_->TakeDroppedPlans(), IsEmpty());
  Settle();
  EXPECT_EQ(AdmissionOf(job), Admission::kAccepted);

  const std::string second = SubmitOnly(New(/*with_data=*/false, "second"));
  EXPECT_EQ(SubmitOnly(New(/*with_data=*/false, "second")), second);
  service_->Abandon(second, kGone);
  service_->Abandon(second, kGone);
  EXPECT_EQ(AdmissionOf(second), Admission::kRefused);
}

TEST_F(GivenUpJobsTest, AnAcceptedJobStays) {
  const std::string job = Submit(New(/*with_data=*/false));
  service_->Abandon(job, kGone);
  EXPECT_EQ(AdmissionOf(job), Admission::kAccepted);
  EXPECT_EQ(List()->job_size(), 1);
}

TEST_F(GivenUpJobsTest, ACancelledJobNeedsNoPlan) {
  const std::string job = SubmitOnly(New(/*with_data=*/false));
  EXPECT_THAT(service_->TakePlanRequests(), SizeIs(1));
  ASSERT_TRUE(service_->Cancel(job).ok());
  EXPECT_THAT(service_->TakeDroppedPlans(), ElementsAre(job));
}

}  // namespace
}  // namespace adjoin
