// Whose an output_dir is: a second job does not replace the results of a first one without a word.
#include "coordinator/decisions/output_use.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "coordinator/decisions/coordination_fixture.h"

namespace adjoin {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class OutputUseTest : public CoordinationTest {
 protected:
  static NewJob In(const std::string& folder, bool replace = false) {
    NewJob job;
    job.spec = Spec("net", 1);
    job.spec.set_output_dir(folder);
    job.replace_output = replace;
    return job;
  }
  // On worker-0, which is connection 1.
  std::string Ended(NewJob job, RankEnd end, uint64_t steps = 0) {
    const std::string id = Submit(std::move(job));
    Ready(1, id, 0);
    if (steps > 0) SaysStep(1, id, steps);
    EndedAs(1, id, 0, end);
    Cleared(1, id);
    return id;
  }
  void SaysStep(ConnectionId from, const std::string& job, uint64_t steps) {
    WorkerMessage message = Message(job);
    message.mutable_rank_update()->set_job_id(job);
    message.mutable_rank_update()->mutable_progress()->set_step(steps);
    Say(from, message);
  }
  // Why the job is refused; "" where it is not, and then it never starts.
  std::string WhyNot(NewJob job) {
    job.spec.set_ranks(9);
    const absl::StatusOr<Submitted> submitted = service_->Submit(std::move(job));
    Settle();
    if (!submitted.ok()) {
      EXPECT_EQ(submitted.status().code(), absl::StatusCode::kFailedPrecondition);
      return std::string(submitted.status().message());
    }
    EXPECT_EQ(*service_->Cancel(submitted->job_id), CANCELLED);
    Settle();
    return "";
  }
  std::string ReplacedBy(const std::string& job) { return Describe(job)->replaced_by(); }
};

TEST_F(OutputUseTest, AJobThatHasNotEndedKeepsItsFolder) {
  const std::string first = Submit(In("out"));
  const std::string why = WhyNot(In("./out//"));
  EXPECT_THAT(why, AllOf(StartsWith("output_dir \"./out//\" is that of job-1, which is pending and has not ended"),
                         HasSubstr("choose another output_dir, or leave it out")));
  EXPECT_EQ(WhyNot(In("./out//", /*replace=*/true)), why) << "it would write over what comes later";
  EXPECT_EQ(WhyNot(In("out/below")), "");
  EXPECT_EQ(*service_->Cancel(first), CANCELLED);
  Settle();
  EXPECT_EQ(WhyNot(In("out")), "") << "it has written nothing";
}

TEST_F(OutputUseTest, ResultsAreReplacedOnlyWhereThatIsToldAndTheFirstJobSaysSo) {
  Connect(1, "worker-0", 1);
  const std::string first = Ended(In("out"), RANK_SUCCEEDED);
  for (int round = 0; round < 2; ++round) {
    EXPECT_THAT(WhyNot(In("out")), AllOf(StartsWith("output_dir \"out\" has what job-1 wrote (succeeded)"),
                                         HasSubstr("submit with --replace")));
    EXPECT_EQ(WhyNot(In("out", /*replace=*/true)), "");
    EXPECT_EQ(ReplacedBy(first), "") << "that one was cancelled before it began";
    Restart();  // the store has it
  }
}

TEST_F(OutputUseTest, TheLaterResultsAreTheFoldersAlsoWhenTheLaterJobIsForgotten) {
  Connect(1, "worker-0", 1);
  const std::string first = Ended(In("out"), RANK_SUCCEEDED);
  const std::string second = Ended(In("out", /*replace=*/true), RANK_SUCCEEDED);
  EXPECT_EQ(ReplacedBy(first), second);
  EXPECT_EQ(ReplacedBy(second), "");
  EXPECT_THAT(WhyNot(In("out")), HasSubstr(second));
  const std::string gone(FindArtifact(first, "model.safetensors").status().message());
  EXPECT_THAT(gone, HasSubstr(absl::StrCat(second, " has replaced them")));
  ASSERT_TRUE(service_->BeginRemoval(second, /*files=*/false).ok());
  service_->EndRemoval(second, /*forget=*/true);
  Settle();
  Restart();
  EXPECT_EQ(ReplacedBy(first), second);
  EXPECT_THAT(WhyNot(In("out")), HasSubstr(absl::StrCat("has what ", second, " wrote (it is not listed any more)")));
}

TEST_F(OutputUseTest, FilesThatAreRemovedFreeTheFolder) {
  Connect(1, "worker-0", 1);
  for (bool files : {true, false}) {
    const std::string job = Ended(In("out"), RANK_SUCCEEDED);
    ASSERT_TRUE(service_->BeginRemoval(job, files).ok());
    EXPECT_NE(WhyNot(In("out")), "") << "they are being removed";
    service_->EndRemoval(job, /*forget=*/true);
    Settle();
    Restart();
    EXPECT_EQ(WhyNot(In("out")) == "", files);
    Connect(1, "worker-0", 1);
  }
}

TEST_F(OutputUseTest, WhatAFailedJobHasDoneCountsFromItsFirstStep) {
  Connect(1, "worker-0", 1);
  Ended(In("early"), RANK_HOPELESS);
  EXPECT_EQ(WhyNot(In("early")), "");
  const std::string late = Ended(In("late"), RANK_HOPELESS, /*steps=*/3);
  EXPECT_THAT(WhyNot(In("late")), HasSubstr(absl::StrCat("has what ", late, " wrote (failed)")));
}

TEST_F(OutputUseTest, OneJobGoesOnInItsFolder) {
  Connect(1, "worker-0", 1);
  NewJob job = In("out");
  job.idempotency_key = "nightly";
  const std::string first = Ended(job, RANK_HOPELESS, /*steps=*/3);
  EXPECT_TRUE(service_->Submit(job)->existed);
  EXPECT_EQ(*service_->Retry(first), STARTING);
  EXPECT_THAT(WhyNot(In("out", /*replace=*/true)), HasSubstr("has not ended"));
}

TEST_F(OutputUseTest, AJobIsNotTriedAgainWhereALaterOneHasItsFolder) {
  Connect(1, "worker-0", 1);
  const std::string first = Ended(In("out"), RANK_HOPELESS, /*steps=*/3);
  const std::string second = Ended(In("out", /*replace=*/true), RANK_SUCCEEDED);
  EXPECT_EQ(ReplacedBy(first), second);
  const absl::Status refused = service_->Retry(first).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(refused.message()), HasSubstr(absl::StrCat("is that of ", second, " now")));
}

TEST_F(OutputUseTest, AJobWithoutAFolderGetsOneOfItsOwn) {
  Submit(In("job-2"));
  std::string asked;
  const absl::StatusOr<Submitted> second = service_->Submit(In(""));
  ASSERT_TRUE(second.ok()) << second.status();
  for (const PlanRequest& request : service_->TakePlanRequests()) {
    asked = request.output_dir;
    service_->Planned(request.job_id, MakePlan(request));
  }
  Settle();
  EXPECT_THAT(asked, StartsWith("job-2-")) << "somebody has chosen that name";
  EXPECT_EQ((*SpecOf(second->job_id))->output_dir(), asked);
  const std::string third = Submit(In(""));
  EXPECT_EQ((*SpecOf(third))->output_dir(), third);
}

}  // namespace
}  // namespace adjoin
