// Plays daemons for tests of attempts that fail when they start: on nodes that are broken, or of jobs that are bad.
//
//   TEST_F(StartFailuresTest, ...) {
//     Cluster(/*nodes=*/3, /*slots=*/1);
//     broken_ = {2};                              // what starts on worker-2 dies
//     const std::string job = Submit(Spec("net", 1));
//     Work();
//     EXPECT_EQ(Job(job).state(), RUNNING);
//   }
#ifndef ADJOIN_COORDINATOR_DECISIONS_START_FAILURES_FIXTURE_H_
#define ADJOIN_COORDINATOR_DECISIONS_START_FAILURES_FIXTURE_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "coordinator/decisions/coordination_fixture.h"

namespace adjoin {

// What the daemons are told to start becomes ready, or dies where the worker is broken or the job bad.
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

}  // namespace adjoin

#endif  // ADJOIN_COORDINATOR_DECISIONS_START_FAILURES_FIXTURE_H_
