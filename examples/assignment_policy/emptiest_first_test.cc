#include "examples/assignment_policy/emptiest_first.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "coordinator/decisions/coordination_service.h"
#include "coordinator/decisions/whole_answers.h"
#include "proto/coordinator.pb.h"

namespace adjoin {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// The decisions of a coordinator with this policy, in a cluster of one worker with four slots and one with two.
class Coordinator {
 public:
  explicit Coordinator(const AssignmentPolicy& policy) : service_(Options(policy)) {
    Connect(1, "large", 4);
    Connect(2, "small", 2);
  }

  // Returns the id of a new job of so many ranks, whose attempt starts if it can.
  std::string Submit(uint32_t ranks) {
    NewJob job;
    job.spec.set_name("job");
    job.spec.set_ranks(ranks);
    const absl::StatusOr<Submitted> submitted = service_.Submit(std::move(job));
    EXPECT_EQ(submitted.status(), absl::OkStatus());
    for (const PlanRequest& request : service_.TakePlanRequests()) {
      service_.Planned(request.job_id, PlannedJob{"plan", "hash"});
    }
    service_.Durable(service_.TakeChanges().submissions);
    return submitted->job_id;
  }

  // The worker of each rank; empty where the job waits.
  std::vector<std::string> WorkersOf(const std::string& job) {
    std::vector<std::string> workers;
    const absl::StatusOr<DescribeJobResponse> described = WholeDescription(service_, job);
    for (const RankStatus& rank : described->rank()) workers.push_back(rank.worker());
    return workers;
  }
  std::string Reason(const std::string& job) { return SummaryOf(service_, job)->reason(); }

 private:
  static CoordinationOptions Options(const AssignmentPolicy& policy) {
    CoordinationOptions options;
    options.wall_clock = [] { return absl::FromUnixSeconds(0); };
    options.monotonic_clock = [] { return absl::Seconds(1); };
    options.assignment = policy;
    return options;
  }
  void Connect(ConnectionId connection, const std::string& name, uint32_t slots) {
    WorkerHello hello;
    hello.set_name(name);
    hello.set_slots(slots);
    hello.set_incarnation(1);
    EXPECT_EQ(service_.WorkerConnected(connection, hello), absl::OkStatus());
  }

  CoordinationService service_;
};

TEST(EmptiestFirstTest, RanksGoElsewhereThanWithTheDefaultPolicy) {
  Coordinator by_default(&AssignCompactly);
  EXPECT_THAT(by_default.WorkersOf(by_default.Submit(2)), ElementsAre("small", "small"));
  EXPECT_THAT(by_default.WorkersOf(by_default.Submit(4)), ElementsAre("large", "large", "large", "large"));

  Coordinator coordinator(&AssignEmptiestFirst);
  EXPECT_THAT(coordinator.WorkersOf(coordinator.Submit(2)), ElementsAre("large", "large"));
  EXPECT_THAT(coordinator.WorkersOf(coordinator.Submit(4)), ElementsAre("large", "large", "small", "small"));
}

TEST(EmptiestFirstTest, AJobWithoutEnoughSlotsWaits) {
  Coordinator coordinator(&AssignEmptiestFirst);
  const std::string job = coordinator.Submit(7);
  EXPECT_THAT(coordinator.WorkersOf(job), ElementsAre());
  EXPECT_EQ(coordinator.Reason(job), "needs 7 slots, 6 of 6 free on 2 workers; it starts when more workers connect");
}

TEST(EmptiestFirstTest, TriesTheNextGroupWhereOneIsTooSmall) {
  const std::vector<CandidateGroup> groups = {{{"a", 4, 1}, {"b", 1, 1}}, {{"c", 2, 2}, {"d", 3, 3}}};
  EXPECT_THAT(*AssignEmptiestFirst(groups, {{0, 1}, {}}), ElementsAre("a", "b"));
  EXPECT_THAT(*AssignEmptiestFirst(groups, {{0, 2, 1, 3}, {}}), ElementsAre("d", "d", "d", "c"));
  EXPECT_THAT(*AssignEmptiestFirst(groups, {{0, 3, 1, 2}, {}}), ElementsAre("d", "d", "c", "d"));
}

// A policy may keep a job waiting for a reason of its own: users see it.
TEST(AssignmentPolicyTest, TheReasonOfARefusalIsShownAndOtherJobsGoOn) {
  Coordinator coordinator(
      [](const std::vector<CandidateGroup>& groups, const AssignmentNeeds& job) -> absl::StatusOr<Assignment> {
        if (job.rank_order.size() % 2 != 0)
          return absl::FailedPreconditionError("jobs of an odd number of ranks never start here");
        return AssignEmptiestFirst(groups, job);
      });
  const std::string odd = coordinator.Submit(3);
  EXPECT_THAT(coordinator.Reason(odd), HasSubstr("; jobs of an odd number of ranks never start here"));
  EXPECT_THAT(coordinator.WorkersOf(coordinator.Submit(2)), ElementsAre("large", "large"));
}

TEST(AssignmentPolicyTest, AWrongChoiceStartsNothing) {
  Coordinator coordinator(
      [](const std::vector<CandidateGroup>& groups, const AssignmentNeeds& job) -> absl::StatusOr<Assignment> {
        return Assignment(job.rank_order.size(), std::string(groups[0][1].worker));
      });
  const std::string job = coordinator.Submit(3);
  EXPECT_THAT(coordinator.WorkersOf(job), ElementsAre());
  EXPECT_THAT(coordinator.Reason(job),
              HasSubstr("assignment policy is wrong: it assigned more ranks to small than it may run"));
}

}  // namespace
}  // namespace adjoin
