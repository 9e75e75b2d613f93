// Nodes on which attempts fail when they start, and jobs that fail wherever they start.
#include "coordinator/decisions/start_failures.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <iostream>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/testing/test_seed.h"
#include "coordinator/decisions/start_failures_fixture.h"

namespace adjoin {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Le;
using ::testing::Not;

TEST_F(StartFailuresTest, ABrokenNodeCostsTwoAttemptsAndNoJob) {
  Cluster(3, 1);
  broken_ = {2};
  std::vector<std::string> jobs;
  for (int i = 0; i < 16; ++i) jobs.push_back(Submit(Spec("net", 1)));
  Work();
  EXPECT_EQ(started_[2], 2);
  EXPECT_EQ(Worker(2).state(), "set aside");
  EXPECT_THAT(Worker(2).condition(), HasSubstr("is tried again in 30s: rank 0 on worker-2 exited with code 1"));
  EXPECT_THAT(Job(jobs[15]).reason(), HasSubstr("1 worker can run no ranks (worker-2: is tried again in 30s: rank 0"));
  for (int second = 0; second < 20; ++second) {
    for (const std::string& job : InState(jobs, RUNNING)) Finish(job);
    PassAndWork(1);
  }
  EXPECT_EQ(InState(jobs, SUCCEEDED).size(), jobs.size());
  EXPECT_EQ(started_[2], 2);
  for (const std::string& job : jobs) EXPECT_EQ(Job(job).restarts_counted(), 0);
}

TEST_F(StartFailuresTest, TrialsComeOneAtATimeAndEverMoreSeldomUntilOneSucceeds) {
  Cluster(2, 4);
  broken_ = {1};
  std::vector<std::string> jobs;
  for (int i = 0; i < 12; ++i) jobs.push_back(Submit(Spec("net", 1)));
  Work();
  const int first = started_[1];
  EXPECT_THAT(first, Le(5)) << "those that had begun when the first failed, and one in its place";
  EXPECT_EQ(Worker(1).state(), "set aside");
  for (int seconds : {30, 60, 120, 240, 480, 600}) {
    PassAndWork(seconds - 1);
    EXPECT_EQ(Worker(1).state(), "set aside");
    const int before = started_[1];
    jobs.push_back(Submit(Spec("net", 1)));
    const auto untried = [&] {
      return std::count_if(jobs.begin(), jobs.end(), [&](const std::string& job) { return Job(job).attempts() == 0; });
    };
    const auto left = untried();
    PassAndWork(1);
    EXPECT_EQ(started_[1], before + 1) << "after " << seconds;
    EXPECT_EQ(untried(), left - 1) << "one that has not failed there comes first";
  }
  broken_.clear();
  PassAndWork(600);
  EXPECT_EQ(Worker(1).state(), "ready");
  EXPECT_EQ(Worker(1).condition(), "");
  EXPECT_EQ(InState(jobs, RUNNING).size(), 8u) << "all slots are in use again";
  EXPECT_THAT(InState(jobs, FAILED), IsEmpty());
}

TEST_F(StartFailuresTest, AJobWaitsForTheNodeWithItsCheckpointsToBeTriedAgain) {
  options_.home_grace = absl::Seconds(20);
  Restart();
  Cluster(2, 2);
  JobSpec spec = Spec("homed", 1);
  spec.mutable_checkpoint()->set_dir("homed/ckpt");
  spec.mutable_restart()->set_max_restarts(3);
  const std::string homed = Submit(spec);
  Work();
  const std::string home = WorkerOf(homed);
  const int node = std::stoi(home.substr(std::string("worker-").size()));
  WorkerMessage update = Message(homed);
  update.mutable_rank_update()->set_job_id(homed);
  update.mutable_rank_update()->mutable_progress()->set_phase("training");
  update.mutable_rank_update()->mutable_progress()->set_step(40);
  update.mutable_rank_update()->mutable_progress()->set_checkpoint_step(40);
  Say(node + 1, update);
  broken_ = {node};
  for (int i = 0; i < 2; ++i) {
    Submit(Spec("net", 1));
    Work();
  }
  ASSERT_EQ(Worker(node).state(), "set aside");
  Ended(node + 1, homed, 0, "was killed by signal 9 (SIGKILL)");
  Cleared(node + 1, homed);
  broken_.clear();
  PassAndWork(40);
  EXPECT_THAT(Kinds(homed), Not(Contains("begins_anew")));
  EXPECT_EQ(Job(homed).state(), RUNNING);
  EXPECT_EQ(WorkerOf(homed), home);
}

TEST_F(StartFailuresTest, AJobThatNeedsTheNodeThatIsSetAsideKeepsNoOthersWaiting) {
  Cluster(3, 1);
  broken_ = {2};
  std::vector<std::string> jobs;
  for (int i = 0; i < 4; ++i) jobs.push_back(Submit(Spec("net", 1)));
  Work();
  ASSERT_EQ(Worker(2).state(), "set aside");
  JobSpec apart = Spec("apart", 3);
  apart.mutable_resources()->set_max_ranks_per_node(1);
  const std::string head = Submit(apart, /*priority=*/1);
  for (const std::string& job : InState(jobs, RUNNING)) Finish(job);
  Work();
  EXPECT_EQ(Job(head).state(), PENDING);
  EXPECT_EQ(InState(jobs, PENDING).size(), 0u) << "the others use the two nodes meanwhile";
}

TEST_F(StartFailuresTest, AJobThatFailsOnEveryNodeIsToBlameItself) {
  Cluster(3, 1);
  std::string bad = Submit(Spec("bad", 1));
  bad_ = {bad};
  Work();
  PassAndWork(2);
  EXPECT_EQ(Job(bad).state(), FAILED);
  EXPECT_EQ(Job(bad).reason(),
            "rank 0 on worker-2 exited with code 1 without a result; it failed 3 times in a row when it started, on "
            "worker-0, worker-1, worker-2");
  for (int node : {0, 1, 2}) EXPECT_EQ(Worker(node).state(), "ready") << node;
  bad_.clear();
  EXPECT_EQ(*service_->Retry(bad), STARTING);
  Settle();
  Work();
  EXPECT_EQ(Job(bad).state(), RUNNING) << "its counts begin anew";
}

// Two users' jobs that can start nowhere do not take the nodes from the others.
TEST_F(StartFailuresTest, BadJobsDoNotTakeTheNodesFromOthers) {
  Cluster(3, 2);
  std::vector<std::string> bad, good;
  for (int i = 0; i < 6; ++i) bad_.insert(absl::StrCat("job-", 2 * i + 1));
  for (int i = 0; i < 6; ++i) {
    bad.push_back(Submit(Spec("bad", 1)));
    good.push_back(Submit(Spec("good", 1)));
  }
  Work();
  for (int second = 0; second < 300; ++second) {
    for (const std::string& job : InState(good, RUNNING)) Finish(job);
    PassAndWork(1);
  }
  EXPECT_EQ(InState(good, SUCCEEDED).size(), good.size());
  EXPECT_EQ(InState(bad, FAILED).size(), bad.size());
}

TEST_F(StartFailuresTest, AJobThatFailsAgainWhereOthersHaveStartedIsToBlameItself) {
  Cluster(2, 1);
  const std::string busy = Submit(Spec("busy", 1));
  Work();
  ASSERT_EQ(WorkerOf(busy), "worker-0") << "so no other worker becomes free for the bad job";
  bad_ = {"job-2"};
  const std::string bad = Submit(Spec("bad", 1));
  Work();
  EXPECT_EQ(Job(bad).state(), PENDING);
  for (int second = 0; second < 600 && Job(bad).state() != FAILED; ++second) {
    const std::string other = Submit(Spec("other", 1));
    PassAndWork(1);
    if (Job(other).state() == RUNNING) Finish(other);
  }
  EXPECT_EQ(Job(bad).state(), FAILED) << Job(bad).reason();
  EXPECT_EQ(Job(bad).attempts(), 3);
}

TEST_F(StartFailuresTest, WhatACancelledJobSaidOfAWorkerIsWithdrawn) {
  Cluster(2, 1);
  const std::string busy = Submit(Spec("busy", 1));
  Work();
  ASSERT_EQ(WorkerOf(busy), "worker-0");
  bad_ = {"job-2", "job-3"};
  const std::string bad = Submit(Spec("bad", 1));
  Work();
  Submit(Spec("bad", 1));
  Work();
  ASSERT_EQ(Worker(1).state(), "set aside");
  ASSERT_EQ(Job(bad).state(), PENDING);
  ASSERT_EQ(*service_->Cancel(bad), CANCELLED);
  EXPECT_EQ(Worker(1).state(), "ready");
}

// What a job says that has started elsewhere stays.
TEST_F(StartFailuresTest, ABrokenNodeStaysSetAsideWhenTheJobsThatFailedThereEnd) {
  Cluster(4, 1);
  broken_ = {3};
  const std::vector<std::string> first = {Submit(Spec("net", 1)), Submit(Spec("net", 1)), Submit(Spec("net", 1))};
  Work();
  std::vector<std::string> jobs;
  for (int i = 0; i < 2; ++i) {
    jobs.push_back(Submit(Spec("net", 1)));
    Work();
  }
  ASSERT_EQ(Worker(3).state(), "set aside");
  for (const std::string& job : first) Finish(job);
  Work();
  for (const std::string& job : jobs) {
    ASSERT_EQ(Job(job).state(), RUNNING);
    ASSERT_EQ(*service_->Cancel(job), CANCELLED);
  }
  EXPECT_EQ(Worker(3).state(), "set aside");
}

TEST_F(StartFailuresTest, WithoutAnotherNodeTheFirstFailureIsTheJobs) {
  Cluster(1, 1);
  broken_ = {0};
  std::vector<std::string> jobs = {Submit(Spec("net", 1)), Submit(Spec("net", 1)), Submit(Spec("net", 1))};
  Work();
  EXPECT_EQ(InState(jobs, FAILED).size(), 3u);
  EXPECT_EQ(Worker(0).state(), "ready") << "nothing shows whether the node or the jobs are to blame";
}

TEST_F(StartFailuresTest, ANodesOwnWordSetsItAsideAtOnceUntilItsDaemonStartsAnew) {
  Cluster(1, 1);
  broken_ = {0};
  node_fault_ = true;
  how_ = "could not be started: /opt/adjoin-rank cannot be run: No such file or directory";
  std::string job = Submit(Spec("net", 1));
  Work();
  EXPECT_EQ(started_[0], 1);
  EXPECT_EQ(Worker(0).state(), "set aside");
  EXPECT_EQ(Job(job).state(), PENDING);
  EXPECT_EQ(Job(job).restarts_counted(), 0);
  PassAndWork(29);
  EXPECT_EQ(started_[0], 1);
  broken_.clear();
  service_->WorkerDisconnected(1, "its connection ended");
  Connect(1, "worker-0", 1, /*incarnation=*/2);
  Work();
  EXPECT_EQ(Job(job).state(), RUNNING);
  EXPECT_EQ(Worker(0).state(), "ready");
}

TEST_F(StartFailuresTest, ARestartWaitsForAnotherNodeBeforeItTakesTheSameAgain) {
  Cluster(2, 1);
  std::string busy = Submit(Spec("busy", 1));
  Work();
  EXPECT_EQ(WorkerOf(busy), "worker-0");
  broken_ = {1};
  std::string job = Submit(Spec("net", 1));
  Work();
  EXPECT_EQ(Job(job).state(), PENDING);
  EXPECT_THAT(Job(job).reason(), HasSubstr("; rather not on worker-1 for 30s, where it failed to start"));
  PassAndWork(29);
  EXPECT_EQ(started_[1], 1);
  PassAndWork(2);
  EXPECT_EQ(started_[1], 2) << "the other is still busy";
  EXPECT_THAT(Job(job).reason(), HasSubstr("; rather not on worker-1 for"));
  broken_.clear();
  std::string next = Submit(Spec("next", 1));
  Work();
  EXPECT_EQ(WorkerOf(next), "worker-1") << "one job does not set the node aside, and it lets others go first";
  Finish(next);
  Work();
  EXPECT_EQ(Job(job).state(), RUNNING) << "another has started there since";
  EXPECT_EQ(WorkerOf(job), "worker-1");
}

TEST_F(StartFailuresTest, ADaemonThatDiesWheneverRanksStartIsSetAside) {
  Cluster(2, 2);
  Submit(Spec("other", 2));
  Work();
  std::vector<std::string> jobs = {Submit(Spec("net", 1)), Submit(Spec("net", 1))};
  for (uint64_t incarnation : {2, 3}) {
    service_->WorkerDisconnected(2, "its connection ended");
    Connect(2, "worker-1", 2, incarnation);
  }
  EXPECT_EQ(Worker(1).state(), "set aside");
  EXPECT_THAT(Worker(1).condition(), HasSubstr("worker-1 was lost (its daemon was started anew) with rank"));
  EXPECT_THAT(InState(jobs, FAILED), IsEmpty());
}

// Up to two broken nodes and any bad jobs, chosen at random.
TEST_F(StartFailuresTest, InRandomClustersEveryGoodJobSucceedsAndBadOnesEnd) {
  const uint64_t seed = TestSeed();
  for (uint64_t round = 0; round < 8; ++round) {
    SCOPED_TRACE(testing::Message() << "ADJOIN_TEST_SEED=" << seed << ", round " << round);
    std::mt19937_64 random(seed + round);
    stored_ = {};
    connections_.clear();
    broken_.clear();
    bad_.clear();
    started_.clear();
    Restart();
    const int nodes = 3 + static_cast<int>(random() % 4);
    const uint32_t slots = 1 + random() % 2;
    Cluster(nodes, slots);
    // A job that fails on a third node, of which nothing else is known yet, is held to blame itself.
    const int broken = static_cast<int>(random() % std::min(3, nodes - 1));
    while (static_cast<int>(broken_.size()) < broken) broken_.insert(static_cast<int>(random() % nodes));
    const int whole_slots = (nodes - broken) * static_cast<int>(slots);
    std::vector<std::string> good, bad;
    for (int i = 1; i <= 30; ++i) {
      const bool is_bad = random() % 6 == 0;
      if (is_bad) bad_.insert(absl::StrCat("job-", i));
      (is_bad ? bad : good).push_back(Submit(Spec("net", 1 + random() % std::min(3, whole_slots))));
    }
    for (int second = 0; second < 3600 && InState(good, SUCCEEDED).size() < good.size(); ++second) {
      for (const std::string& job : InState(good, RUNNING)) Finish(job);
      PassAndWork(1);
    }
    EXPECT_EQ(InState(good, SUCCEEDED).size(), good.size());
    for (const std::string& job : InState(good, FAILED)) ADD_FAILURE() << job << ": " << Job(job).reason();
    for (int second = 0; second < 3600 && InState(bad, FAILED).size() < bad.size(); ++second) PassAndWork(1);
    EXPECT_EQ(InState(bad, FAILED).size(), bad.size());
    if (HasFailure()) {
      for (int node = 0; node < nodes; ++node) {
        std::cerr << (broken_.count(node) > 0 ? "broken " : "") << Worker(node).ShortDebugString() << "\n";
      }
      for (const std::string& job : good) std::cerr << Job(job).ShortDebugString() << "\n";
      for (const std::string& job : bad) std::cerr << "bad " << Job(job).ShortDebugString() << "\n";
      return;
    }
    int lost = 0;
    for (int node : broken_) lost += started_[node];
    EXPECT_LE(lost, 150) << broken << " broken nodes";
  }
}

}  // namespace
}  // namespace adjoin
