#include "cli/text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace adjoin {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(TextTest, Durations) {
  EXPECT_EQ(DurationText(0.44), "0.4 s");
  EXPECT_EQ(DurationText(12.4), "12 s");
  EXPECT_EQ(DurationText(200), "3 min 20 s");
  EXPECT_EQ(DurationText(7500), "2 h 5 min");
  EXPECT_EQ(DurationText(-1), "?");
}

TEST(TextTest, Progress) {
  JobSummary job;
  job.set_job_id("job-1");
  job.set_state(PENDING);
  job.set_reason("no worker is connected");
  EXPECT_EQ(ProgressLine(job, 200), "job-1 pending: no worker is connected");
  EXPECT_EQ(ProgressLine(job, 13), "job-1 pending");
  job.set_state(RUNNING);
  job.mutable_progress()->set_step(5);
  job.mutable_progress()->set_total_steps(10);
  job.mutable_progress()->set_loss(0.25);
  job.mutable_progress()->set_steps_per_second(2.5);
  job.mutable_progress()->set_seconds_left(2);
  EXPECT_EQ(ProgressLine(job, 200),
            "job-1 running [############------------]  50%  step 5/10  loss 0.25  2.5 steps/s  2.0 s left");
  EXPECT_EQ(ProgressLine(job, 79), "job-1 [#########----------]  50%  step 5/10  loss 0.25  2.5 steps/s  2.0 s left");
  EXPECT_EQ(ProgressLine(job, 60), "job-1  50%  step 5/10  loss 0.25  2.5 steps/s  2.0 s left");
  EXPECT_EQ(ProgressLine(job, 20), "job-1  50%  step 5/1");
  EXPECT_EQ(ProgressText(job.progress()), "step 5/10, loss 0.25, 2.5 steps/s");
  // Before the first step of an attempt there is no loss.
  job.mutable_progress()->set_resumed_step(5);
  EXPECT_EQ(ProgressText(job.progress()), "step 5/10, 2.5 steps/s");
  EXPECT_EQ(ProgressLine(job, 60), "job-1 [#####------]  50%  step 5/10  2.5 steps/s  2.0 s left");
}

TEST(TextTest, APhaseThatIsNotTrainingIsNamedAndHasNoLoss) {
  JobSummary job;
  job.set_job_id("job-1");
  job.set_state(RUNNING);
  EXPECT_EQ(ProgressText(job.progress()), "");
  job.mutable_progress()->set_loss(0.25);
  job.mutable_progress()->set_phase("writing weights");
  EXPECT_EQ(ProgressText(job.progress()), "writing weights");
  EXPECT_EQ(ProgressLine(job, 79), "job-1 running  writing weights");
  job.mutable_progress()->set_phase("evaluating");
  job.mutable_progress()->set_step(32);
  job.mutable_progress()->set_total_steps(32);
  job.mutable_progress()->set_steps_per_second(90);
  EXPECT_EQ(ProgressText(job.progress()), "evaluating, step 32/32, 90.0 steps/s");
  EXPECT_EQ(ProgressLine(job, 200),
            "job-1 running [########################] 100%  evaluating  step 32/32  90.0 steps/s  0.0 s left");
}

TEST(TextTest, Ends) {
  JobSummary job;
  job.set_job_id("job-1");
  job.set_state(SUCCEEDED);
  job.set_started_unix_ms(1000);
  job.set_ended_unix_ms(13000);
  EXPECT_EQ(EndLine(job), "job-1 succeeded in 12 s");
  job.mutable_progress()->set_program("train");
  job.mutable_progress()->set_phase("finished");
  job.mutable_progress()->set_step(120);
  job.mutable_progress()->set_loss(0.125);
  EXPECT_EQ(EndLine(job), "job-1 succeeded in 12 s: loss 0.125 in the last step, 120");
  (*job.mutable_progress()->mutable_metric())["accuracy"] = 0.964;
  (*job.mutable_progress()->mutable_metric())["correct"] = 1928;
  EXPECT_EQ(EndLine(job), "job-1 succeeded in 12 s: accuracy 0.9640, correct 1928");
  (*job.mutable_progress()->mutable_metric())["dice[10]"] = 0.5;
  (*job.mutable_progress()->mutable_metric())["dice[2]"] = 1;
  (*job.mutable_progress()->mutable_metric())["mse"] = 0.000125;
  EXPECT_EQ(EndLine(job), "job-1 succeeded in 12 s: accuracy 0.9640, correct 1928, mse 0.000125");
  EXPECT_THAT(ClassRows(job.progress()), ElementsAre(ElementsAre("dice by class", "2: 1.0000, 10: 0.5000")));
  job.set_state(FAILED);
  job.set_reason("rank 2 on worker-1 was killed by signal 9 (SIGKILL)");
  EXPECT_THAT(EndLine(job), HasSubstr("failed after 12 s: rank 2 on worker-1 was killed"));
}

}  // namespace
}  // namespace adjoin
