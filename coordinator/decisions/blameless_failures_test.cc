// Attempts that fail when they start, where neither their job nor their node is to blame: a process is killed from
// outside, or a file system does not answer.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "coordinator/decisions/start_failures_fixture.h"

namespace adjoin {
namespace {

using ::testing::HasSubstr;
using ::testing::Le;

class BlamelessFailuresTest : public StartFailuresTest {};

TEST_F(BlamelessFailuresTest, KillsFromOutsideAreHeldAgainstNoJob) {
  Cluster(2, 1);
  how_ = "was killed by signal 9 (SIGKILL)";
  JobSpec spec = Spec("net", 1);
  spec.mutable_restart()->set_max_restarts(1000000);
  std::string job = Submit(spec);
  bad_ = {job};
  Work();
  PassAndWork(900);
  EXPECT_EQ(Job(job).state(), PENDING) << Job(job).reason();
  EXPECT_THAT(started_[0] + started_[1], Le(40)) << "it starts no more than once a minute";
  bad_.clear();
  PassAndWork(120);
  EXPECT_EQ(Job(job).state(), RUNNING);
}

// As before, but each time before the process has asked what to run: its daemon says that the job is not to blame.
TEST_F(BlamelessFailuresTest, KillsBeforeAProcessAsksWhatToRunNeedNoRestartPolicy) {
  Cluster(2, 1);
  how_ = "was killed by signal 9 (SIGKILL)";
  infrastructure_ = true;
  std::string job = Submit(Spec("net", 1));
  bad_ = {job};
  Work();
  for (int second = 0; second < 600; ++second) {  // others start there meanwhile
    std::string other = Submit(Spec("other", 1));
    Work();
    PassAndWork(1);
    if (Job(other).state() == RUNNING) Finish(other);
  }
  EXPECT_EQ(Job(job).state(), PENDING) << Job(job).reason();
  EXPECT_EQ(Job(job).restarts_counted(), 0);
}

// Jobs whose files are on a file system that does not answer, beside others.
TEST_F(BlamelessFailuresTest, FilesThatDoNotAnswerSpeakAgainstNoWorkerAndNoJob) {
  Cluster(2, 4);
  files_fault_ = true;
  how_ = "could not be started: the file system at /srv/data/dead did not answer within 1m30s";
  bad_ = {"job-1", "job-2", "job-3"};
  std::vector<std::string> dead;
  for (int i = 0; i < 3; ++i) dead.push_back(Submit(Spec("dead", 1)));
  Work();
  EXPECT_THAT(Job(dead[0]).reason(), HasSubstr(how_));
  for (int second = 0; second < 300; ++second) {
    const std::string other = Submit(Spec("other", 1));
    Work();
    ASSERT_EQ(Job(other).state(), RUNNING) << "after " << second << " s: " << Job(other).reason();
    for (const int node : {0, 1}) ASSERT_EQ(Worker(node).state(), "ready") << "after " << second << " s";
    Finish(other);
    PassAndWork(1);
  }
  for (const std::string& job : dead) {
    EXPECT_EQ(Job(job).state(), PENDING) << Job(job).reason();
    EXPECT_EQ(Job(job).restarts_counted(), 0);
    EXPECT_GE(Job(job).attempts(), 8);
    EXPECT_LE(Job(job).attempts(), 20) << "in the end, it starts once a minute";
  }
  bad_.clear();
  PassAndWork(120);
  EXPECT_EQ(InState(dead, RUNNING).size(), dead.size());
}

TEST_F(BlamelessFailuresTest, AJobWhoseFilesDoNotAnswerIsTriedElsewhereFirst) {
  Cluster(2, 1);
  broken_ = {0};  // for jobs with such files
  files_fault_ = true;
  const std::string first = Submit(Spec("first", 1));
  Work();
  EXPECT_EQ(started_[0], 1);
  EXPECT_EQ(Job(first).state(), RUNNING);
  EXPECT_EQ(WorkerOf(first), "worker-1");
  const std::string second = Submit(Spec("second", 1));
  Work();
  EXPECT_EQ(started_[0], 2);
  EXPECT_THAT(Job(second).reason(), HasSubstr("; rather not on worker-0 for 30s, where file systems did not answer"));
  EXPECT_EQ(Worker(0).state(), "ready") << "that the first started elsewhere says nothing of the worker, either";
  broken_.clear();
  const std::string other = Submit(Spec("other", 1));
  Work();
  EXPECT_EQ(Job(other).state(), RUNNING);
  EXPECT_EQ(WorkerOf(other), "worker-0");
  Finish(other);
  PassAndWork(5);
  EXPECT_EQ(Job(second).state(), PENDING) << "what starts there says nothing of its files";
  PassAndWork(30);
  EXPECT_EQ(Job(second).state(), RUNNING) << "no other worker was free";
}

}  // namespace
}  // namespace adjoin
