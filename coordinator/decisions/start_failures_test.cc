// Nodes on which attempts fail when they start, and jobs that fail wherever they start.
#include "coordinator/decisions/start_failures.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <iostream>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/testing/test_seed.h"
#include "coordinator/decisions/coordination_fixture.h"

namespace adjoin {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Le;
using ::testing::Not;

// Plays the daemons: what they are told to start becomes ready, or dies where the worker is broken or the job bad.
class StartFailuresTest : public CoordinationTest {
 protected:
  StartFailuresTest() {
    options_.progress.shortest = options_.progress.first_step = absl::Hours(100);  // no pulses come
    Restart();
  }

  // worker-0 has connection 1, and so on.
  void Cluster(int nodes, uint32_t slots) {
    for (int node = 0; node < nodes; ++node) {
      connections_.push_back(node + 1);
      Connect(node + 1, absl::StrCat("worker-", node), slots);
    }
  }

  // Does all that the coordinator has asked for.
  void Work() {
    for (bool any = true; any;) {
      any = false;
      for (const Action& action : Taken(CoordinatorMessage::kStartRanks)) {
        any = true;
        Begin(action.to, action.message.start_ranks());
      }
      for (const Action& action : Taken(CoordinatorMessage::kStopAttempt)) {
        any = true;
        Cleared(action.to, action.message.stop_attempt().job_id());
      }
    }
  }
  void Begin(ConnectionId connection, const StartRanks& start) {
    const std::string& job = start.job_id();
    const int node = static_cast<int>(connection) - 1;
    ++started_[node];
    if (broken_.count(node) > 0 || bad_.count(job) > 0) {
      WorkerMessage message = Message(job);
      RankEnded& ended = *message.mutable_rank_ended();
      ended.set_job_id(job);
      ended.set_rank(start.rank(0));
      ended.set_end(RANK_LOST);
      ended.set_error(how_);
      ended.set_infrastructure(infrastructure_ || node_fault_ || files_fault_);
      ended.set_node_fault(node_fault_);
      ended.set_files_fault(files_fault_);
      Say(connection, message);
      Cleared(connection, job);
      return;
    }
    for (uint32_t rank : start.rank()) Ready(connection, job, rank);
  }
  // All ranks of a running job end well.
  void Finish(const std::string& job) {
    const auto described = Describe(job);
    ASSERT_TRUE(described.ok());
    std::set<ConnectionId> used;
    for (const RankStatus& rank : described->rank()) {
      const ConnectionId connection = std::stoi(rank.worker().substr(std::string("worker-").size())) + 1;
      used.insert(connection);
      Ended(connection, job, rank.rank(), "");
    }
    for (ConnectionId connection : used) Cleared(connection, job);
  }
  std::vector<std::string> InState(const std::vector<std::string>& jobs, JobState state) {
    std::vector<std::string> result;
    for (const std::string& job : jobs) {
      if (Job(job).state() == state) result.push_back(job);
    }
    return result;
  }
  void PassAndWork(int seconds) {
    for (int second = 0; second < seconds; ++second) {
      Pass(1, connections_);
      Work();
    }
  }
  WorkerSummary Worker(int node) { return List()->worker(node); }
  std::string WorkerOf(const std::string& job) { return Describe(job)->rank(0).worker(); }

  std::vector<ConnectionId> connections_;
  std::set<int> broken_;       // nodes
  std::set<std::string> bad_;  // jobs
  std::string how_ = "exited with code 1 without a result";
  bool infrastructure_ = false, node_fault_ = false, files_fault_ = false;
  std::map<int, int> started_;  // attempts, by node
};

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

TEST_F(StartFailuresTest, KillsFromOutsideAreHeldAgainstNoJob) {
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
TEST_F(StartFailuresTest, KillsBeforeAProcessAsksWhatToRunNeedNoRestartPolicy) {
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
TEST_F(StartFailuresTest, FilesThatDoNotAnswerSpeakAgainstNoWorkerAndNoJob) {
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

TEST_F(StartFailuresTest, AJobWhoseFilesDoNotAnswerIsTriedElsewhereFirst) {
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
  EXPECT_THAT(Job(second).reason(),
              HasSubstr("; rather not on worker-0 for 30s, where a file system of its files did not answer"));
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
