// What tests of the control plane share: a cluster whose ranks do what the job's name demands (fake_jobs.h).
//
//   TEST_F(ControlPlaneTest, ...) {
//     StartCluster(/*nodes=*/2, /*slots=*/2);
//     EXPECT_EQ(End(Submit("succeed", 4)).state(), SUCCEEDED);
//   }
#ifndef ADJOIN_TESTS_FAULT_CONTROL_PLANE_FIXTURE_H_
#define ADJOIN_TESTS_FAULT_CONTROL_PLANE_FIXTURE_H_

#include <errno.h>
#include <signal.h>
#include <sys/types.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/deadline.h"
#include "proto/coordinator.pb.h"
#include "tests/fault/fake_jobs.h"
#include "tests/harness/local_cluster.h"

namespace adjoin {

inline Deadline Within(double seconds) { return Deadline::After(absl::Seconds(seconds)); }

inline bool Alive(pid_t pid) { return kill(pid, 0) == 0 || errno != ESRCH; }

class ControlPlaneTest : public ::testing::Test {
 protected:
  void StartCluster(int nodes, int slots, std::vector<std::string> coordinator_flags = {},
                    std::vector<std::string> environment = {}) {
    LocalClusterOptions options;
    options.environment = std::move(environment);
    options.rank_binary = "worker/testing/fake-rank";
    options.coordinator_flags = std::move(coordinator_flags);
    auto cluster = LocalCluster::Start(nodes, slots, options);
    ASSERT_TRUE(cluster.ok()) << cluster.status();
    cluster_ = *std::move(cluster);
  }
  std::string Submit(const std::string& name, int ranks, const std::string& more = "") {
    absl::StatusOr<std::string> id = cluster_->Submit(FakeJob(name, ranks, more));
    EXPECT_TRUE(id.ok()) << id.status();
    return id.ok() ? *id : "";
  }
  JobSummary End(const std::string& job, double seconds = 60) {
    absl::StatusOr<JobSummary> end = cluster_->WaitFor(job, Within(seconds));
    EXPECT_TRUE(end.ok()) << end.status();
    return end.ok() ? *end : JobSummary();
  }
  void WaitForState(const std::string& job, JobState state) {
    auto reached = cluster_->WaitUntil(
        job, [&](const JobSummary& s) { return s.state() == state; }, Within(60));
    ASSERT_TRUE(reached.ok()) << reached.status();
  }
  void ExpectNextJobSucceeds(int ranks) {
    JobSummary next = End(Submit("succeed", ranks));
    EXPECT_EQ(next.state(), SUCCEEDED) << next.reason();
  }

  std::unique_ptr<LocalCluster> cluster_;
};

}  // namespace adjoin

#endif  // ADJOIN_TESTS_FAULT_CONTROL_PLANE_FIXTURE_H_
