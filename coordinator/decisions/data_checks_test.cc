#include "coordinator/decisions/data_checks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "coordinator/decisions/coordination_fixture.h"

namespace adjoin {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr char kHangs[] = "reading 'a/b.nii' did not end within 30 s: does its file system answer?";

class DataChecksTest : public CoordinationTest {
 protected:
  void ConnectChecker(ConnectionId connection, const std::string& name, uint32_t checks) {
    WorkerHello hello = Hello(name, 4);
    hello.set_data_checks(checks);
    Connect(connection, hello);
  }
  std::string SubmitAs(const std::string& owner) {
    NewJob job;
    job.spec = Spec("net", 1, /*with_data=*/true);
    job.owner = owner;
    return Submit(std::move(job));
  }
  // The worker that was asked last since the last call, by job.
  std::map<std::string, ConnectionId> Asked() {
    std::map<std::string, ConnectionId> asked;
    for (const Action& action : Taken(CoordinatorMessage::kProbeData)) {
      asked[action.message.probe_data().request_id()] = action.to;
    }
    return asked;
  }
  std::vector<std::string> Cancelled() {
    std::vector<std::string> jobs;
    for (const Action& action : Taken(CoordinatorMessage::kCancelProbe)) {
      jobs.push_back(action.message.cancel_probe().request_id());
    }
    return jobs;
  }
  void CouldNot(ConnectionId from, const std::string& job, const std::string& error = kHangs) {
    WorkerMessage message;
    *message.mutable_header() = MakeHeader();
    message.mutable_probe_result()->set_request_id(job);
    message.mutable_probe_result()->set_error(error);
    message.mutable_probe_result()->set_undecided(true);
    Say(from, message);
  }
  Admission AdmissionOf(const std::string& job) { return service_->AdmissionOf(job, &reason_); }

  absl::Status reason_;
};

// Only then has the worker to plan.
TEST_F(DataChecksTest, AJobWithVolumesOfDifferentExtentsIsSentToTheWorker) {
  ConnectChecker(1, "worker-0", 3);
  for (const bool varies : {false, true}) {
    for (const bool blocks : {false, true}) {
      NewJob job;
      job.spec = Spec("net", 1, /*with_data=*/true);
      Field& field = *job.spec.mutable_dataset(0)->add_field();
      field.add_shape(1);
      field.add_shape(varies ? -1 : 8);
      if (blocks) job.spec.mutable_dataset(0)->mutable_blocks()->add_size(4);
      const std::string id = Submit(std::move(job));
      const std::vector<Action> asked = Taken(CoordinatorMessage::kProbeData);
      ASSERT_THAT(asked, SizeIs(1));
      EXPECT_EQ(asked[0].message.probe_data().has_job(), varies && !blocks);
      EXPECT_EQ(asked[0].message.probe_data().job().name(), varies && !blocks ? "net" : "");
      Probed(1, id, "");
    }
  }
}

TEST_F(DataChecksTest, AWorkerThatNeverAnswersHoldsNobodyElseUp) {
  ConnectChecker(1, "worker-0", 2);
  ConnectChecker(2, "worker-1", 2);
  std::vector<std::string> hanging;
  int accepted = 0;
  for (int second = 0; second < 200; ++second) {
    const std::string job = SubmitAs(absl::StrCat("user-", second % 7));
    for (int round = 0; round < 3; ++round) {
      for (const auto& [id, to] : Asked()) {
        if (to == 2) Probed(2, id, "");
      }
    }
    const bool now = AdmissionOf(job) == Admission::kAccepted;
    accepted += now;
    if (!now) hanging.push_back(job);
    Pass(1, {1, 2});
  }
  EXPECT_GE(accepted, 190);
  Pass(2, {1, 2});
  for (int second = 0; second < 40; ++second) {
    for (const auto& [id, to] : Asked()) {
      if (to == 2) Probed(2, id, "");
    }
    Pass(1, {1, 2});
  }
  for (const std::string& job : hanging) EXPECT_EQ(AdmissionOf(job), Admission::kAccepted) << job;
}

TEST_F(DataChecksTest, WhatOneWorkerCannotCheckAnotherOneDoes) {
  ConnectChecker(1, "worker-0", 4);
  ConnectChecker(2, "worker-1", 4);
  const std::string job = SubmitAs("alice");
  ASSERT_EQ(Asked(), (std::map<std::string, ConnectionId>{{job, 1}}));
  CouldNot(1, job);
  EXPECT_EQ(AdmissionOf(job), Admission::kUndecided);
  ASSERT_EQ(Asked(), (std::map<std::string, ConnectionId>{{job, 2}}));
  Probed(1, job, "late and wrong");
  EXPECT_EQ(AdmissionOf(job), Admission::kUndecided) << "it was given to another worker";
  Probed(2, job, "");
  EXPECT_EQ(AdmissionOf(job), Admission::kAccepted);
}

TEST_F(DataChecksTest, AfterTwoWorkersTheJobIsRefusedAndTheFileNamed) {
  for (int i = 0; i < 3; ++i) ConnectChecker(1 + i, absl::StrCat("worker-", i), 4);
  const std::string job = SubmitAs("alice");
  for (int tries = 0; tries < 2; ++tries) {
    const std::map<std::string, ConnectionId> asked = Asked();
    ASSERT_THAT(asked, SizeIs(1));
    CouldNot(asked.begin()->second, job);
  }
  EXPECT_THAT(Asked(), IsEmpty());
  EXPECT_EQ(AdmissionOf(job), Admission::kRefused);
  EXPECT_EQ(reason_.message(),
            absl::StrCat("its data files could not be checked (worker-0: ", kHangs, "; worker-1: ", kHangs, ")"));
}

TEST_F(DataChecksTest, WithOneWorkerItIsRefusedAtOnce) {
  ConnectChecker(1, "worker-0", 4);
  const std::string job = SubmitAs("alice");
  CouldNot(1, job);
  EXPECT_EQ(AdmissionOf(job), Admission::kRefused);
  EXPECT_THAT(std::string(reason_.message()), AllOf(HasSubstr("worker-0"), HasSubstr("a/b.nii")));
}

TEST_F(DataChecksTest, AWorkerWhoseChecksHangIsAskedLastForAWhile) {
  ConnectChecker(1, "worker-0", 4);
  ConnectChecker(2, "worker-1", 4);
  std::string job = SubmitAs("alice");
  CouldNot(1, job);
  Probed(2, job, "");
  Asked();
  for (int i = 0; i < 3; ++i) {
    const std::string next = SubmitAs("alice");
    EXPECT_EQ(Asked(), (std::map<std::string, ConnectionId>{{next, 2}}));
    Probed(2, next, "");
  }
  Pass(31, {1, 2});
  job = SubmitAs("alice");
  EXPECT_EQ(Asked(), (std::map<std::string, ConnectionId>{{job, 1}})) << "it may have been mended";
  CouldNot(1, job);
  CouldNot(2, job);
  EXPECT_EQ(AdmissionOf(job), Admission::kRefused);
  Asked();
  job = SubmitAs("bob");
  EXPECT_THAT(Asked(), SizeIs(1)) << "where there is no better one, any is asked";
}

TEST_F(DataChecksTest, NoOwnerTakesAllTheRoom) {
  ConnectChecker(1, "worker-0", 4);
  for (int i = 0; i < 20; ++i) SubmitAs("mallory");
  EXPECT_THAT(Asked(), SizeIs(3));
  const std::string small = SubmitAs("alice");
  EXPECT_EQ(Asked().count(small), 1);
  Probed(1, small, "");
  EXPECT_EQ(AdmissionOf(small), Admission::kAccepted);
  const std::string other = SubmitAs("bob");
  EXPECT_EQ(Asked().count(other), 1) << "before the seventeen that came earlier";
}

TEST_F(DataChecksTest, JobsWithoutFilesNeedNoWorker) {
  ConnectChecker(1, "worker-0", 1);
  SubmitAs("alice");  // hangs
  JobSpec spec = Spec("net", 1);
  Dataset& dataset = *spec.add_dataset();
  dataset.set_name("train");
  for (const char* name : {"image", "label"}) {
    Field& field = *dataset.add_field();
    field.set_name(name);
    field.mutable_synthetic()->set_samples(60);
  }
  std::string job = Submit(spec);
  EXPECT_EQ(AdmissionOf(job), Admission::kAccepted);
  ASSERT_THAT(planned_sizes_, SizeIs(1));
  EXPECT_EQ(planned_sizes_[0].name(), "train");
  EXPECT_EQ(planned_sizes_[0].samples(), 60);
  spec.mutable_dataset(0)->mutable_field(1)->mutable_synthetic()->set_samples(59);
  job = Submit(spec);
  EXPECT_EQ(AdmissionOf(job), Admission::kUndecided) << "the check has the words for it";
}

TEST_F(DataChecksTest, AJobThatBringsItsPlanIsStoredWithItAndNothingIsAsked) {
  ConnectChecker(1, "worker-0", 1);
  SubmitAs("alice");  // hangs
  Asked();
  NewJob job;
  job.spec = Spec("net", 1);
  job.written = std::make_shared<const SubmittedSpec>(SubmittedSpec{{}, "the text", "job.textproto"});
  job.plan = PlannedJob{"its plan", "its hash"};
  absl::StatusOr<Submitted> submitted = service_->Submit(std::move(job));
  ASSERT_TRUE(submitted.ok()) << submitted.status();
  EXPECT_THAT(service_->TakePlanRequests(), IsEmpty());
  EXPECT_THAT(Asked(), IsEmpty());
  EXPECT_EQ(AdmissionOf(submitted->job_id), Admission::kUndecided) << "it is not in the store";

  const StoreChanges changes = service_->TakeChanges();
  ASSERT_THAT(changes.submissions, SizeIs(1));
  EXPECT_EQ(changes.submissions[0].source(), "the text");
  ASSERT_THAT(changes.plans, SizeIs(1));
  EXPECT_EQ(changes.plans[0].plan(), "its plan");
  ASSERT_THAT(changes.jobs, SizeIs(1));
  EXPECT_EQ(changes.jobs[0].plan_hash(), "its hash");
  EXPECT_THAT(Taken(CoordinatorMessage::kStartRanks), IsEmpty());
  Keep(changes);
  service_->Durable(changes.submissions);
  EXPECT_EQ(AdmissionOf(submitted->job_id), Admission::kAccepted);
  EXPECT_THAT(Taken(CoordinatorMessage::kStartRanks), SizeIs(1));
  Settle();
  EXPECT_THAT(planned_sizes_, IsEmpty()) << "no plan was asked for later";
}

TEST_F(DataChecksTest, AWorkerIsToldOfChecksThatNobodyWaitsForAnyMore) {
  ConnectChecker(1, "worker-0", 2);
  const std::string abandoned = SubmitAs("alice"), cancelled = SubmitAs("bob"), waits = SubmitAs("carol");
  EXPECT_THAT(Asked(), SizeIs(2));
  service_->Abandon(abandoned, absl::CancelledError("the client has gone"));
  Settle();
  EXPECT_EQ(Cancelled(), std::vector<std::string>{abandoned});
  EXPECT_EQ(Asked(), (std::map<std::string, ConnectionId>{{waits, 1}})) << "there is room again";
  ASSERT_TRUE(service_->Cancel(cancelled).ok());
  Settle();
  EXPECT_EQ(Cancelled(), std::vector<std::string>{cancelled});
  Pass(35, {1});
  EXPECT_EQ(Cancelled(), std::vector<std::string>{waits});
  EXPECT_EQ(AdmissionOf(waits), Admission::kRefused);
}

TEST_F(DataChecksTest, WhatWasAcceptedIsCheckedAgainLater) {
  const std::string job = SubmitAs("alice");
  EXPECT_EQ(AdmissionOf(job), Admission::kAccepted) << "no worker is there";
  ConnectChecker(1, "worker-0", 4);
  ASSERT_THAT(Asked(), SizeIs(1));
  CouldNot(1, job);
  EXPECT_EQ(Job(job).state(), PENDING);
  EXPECT_EQ(Job(job).reason(), absl::StrCat("its data files are to be checked again: worker-0: ", kHangs));
  Pass(29, {1});
  EXPECT_THAT(Asked(), IsEmpty());
  Pass(2, {1});
  ASSERT_THAT(Asked(), SizeIs(1));
  Probed(1, job, "");
  EXPECT_EQ(Job(job).state(), STARTING);
}

}  // namespace
}  // namespace adjoin
