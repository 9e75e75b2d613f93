// Nodes that tell that they can run no ranks: coordinator/decisions/worker_table.h.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "coordinator/decisions/coordination_fixture.h"
#include "proto/message_limits.h"

namespace adjoin {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

constexpr char kGone[] = "its output root /out is gone";

class UnfitWorkersTest : public CoordinationTest {
 protected:
  void Beat(ConnectionId from, const std::string& condition) {
    WorkerMessage message = Heartbeats();
    message.mutable_heartbeat()->set_condition(condition);
    Say(from, message);
  }
  WorkerSummary Worker(int index) { return List()->worker(index); }
};

TEST_F(UnfitWorkersTest, ANodeThatCanRunNoRanksGetsNoneUntilItIsMended) {
  Connect(1, "worker-0", 4);
  Beat(1, kGone);
  EXPECT_EQ(Worker(0).state(), "unfit");
  EXPECT_EQ(Worker(0).condition(), kGone);
  std::vector<std::string> jobs;
  for (int i = 0; i < 16; ++i) jobs.push_back(Submit(Spec("net", 1)));
  EXPECT_THAT(Taken(CoordinatorMessage::kStartRanks), IsEmpty());
  for (const std::string& job : jobs) {
    EXPECT_EQ(Job(job).state(), PENDING);
    EXPECT_EQ(Job(job).reason(), "1 worker can run no ranks (worker-0: its output root /out is gone)");
  }
  Connect(2, "worker-1", 1);
  EXPECT_THAT(Taken(CoordinatorMessage::kStartRanks), SizeIs(1)) << "the other node takes what it can";
  EXPECT_EQ(Job(jobs[0]).state(), STARTING);
  EXPECT_THAT(Job(jobs[1]).reason(), HasSubstr("0 of 1 free on 1 worker; 1 worker can run no ranks (worker-0: its"));
  Beat(1, "");
  EXPECT_EQ(Worker(0).state(), "ready");
  EXPECT_EQ(Worker(0).condition(), "");
  EXPECT_THAT(Taken(CoordinatorMessage::kStartRanks), SizeIs(4));
}

TEST_F(UnfitWorkersTest, AWorkerWithMoreSlotsThanCanBeAddedIsRefused) {
  EXPECT_EQ(service_->WorkerConnected(1, Hello("worker-0", 100000)), absl::OkStatus());
  const absl::Status refused = service_->WorkerConnected(2, Hello("worker-1", 4294967295));
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(std::string(refused.message()),
            "worker-1 offers 4294967295 slots; at most 100000 are possible: give it another --slots");
}

TEST_F(UnfitWorkersTest, JobsThatNobodyCanRunAreLookedAtOnceAndNotEachOne) {
  int asked = 0;
  options_.assignment = [&](const std::vector<CandidateGroup>& groups, const AssignmentNeeds& job) {
    ++asked;
    return AssignCompactly(groups, job);
  };
  Restart();
  Connect(1, "worker-0", 3);
  JobSpec apart = Spec("net", 2);
  apart.mutable_resources()->set_max_ranks_per_node(1);
  for (int i = 0; i < 200; ++i) Submit(apart);
  asked = 0;
  const std::string small = Submit(Spec("small", 1));
  EXPECT_EQ(Job(small).state(), STARTING) << "it delays none of them";
  EXPECT_GT(asked, 0);
  EXPECT_LT(asked, 20);
}

TEST_F(UnfitWorkersTest, RanksOfOneJobRunOnNodesOfOneRelease) {
  const auto with_program = [](WorkerHello hello, const std::string& program) {
    hello.set_rank_program(program);
    return hello;
  };
  Connect(1, with_program(Hello("worker-0", 2), "new"));
  Connect(2, with_program(Hello("worker-1", 2), "old"));
  const std::string wide = Submit(Spec("wide", 4));
  EXPECT_EQ(Job(wide).state(), PENDING);
  EXPECT_THAT(Job(wide).reason(), HasSubstr("all its ranks run one adjoin-rank program"));
  EXPECT_THAT(Job(wide).reason(), HasSubstr("worker-0 (2 slots); worker-1 (2 slots)"));
  // The daemon of worker-1 is upgraded.
  service_->WorkerDisconnected(2, "it stops");
  Connect(3, with_program(Hello("worker-1", 2, /*incarnation=*/2), "new"));
  EXPECT_EQ(Job(wide).state(), STARTING);
}

TEST_F(UnfitWorkersTest, OtherJobsRunWhileOneWaitsForNodesOfOneRelease) {
  for (ConnectionId node : {1, 2}) {
    WorkerHello hello = Hello(absl::StrCat("worker-", node), 2);
    hello.set_rank_program(node == 1 ? "new" : "old");
    Connect(node, hello);
  }
  const std::string wide = Submit(Spec("wide", 4));
  const std::string small = Submit(Spec("small", 2));
  EXPECT_EQ(Job(small).state(), STARTING) << "it cannot start on these nodes, so nothing delays it";
  EXPECT_EQ(Job(wide).state(), PENDING);
}

TEST_F(UnfitWorkersTest, ItChecksNoDataEither) {
  Connect(1, "worker-0", 1);
  WorkerHello hello = Hello("worker-1", 1);
  hello.set_condition(kGone);
  Connect(2, hello);
  Beat(1, "its data root /data cannot be read");
  const std::string job = Submit(Spec("net", 1, /*with_data=*/true));
  EXPECT_THAT(Taken(CoordinatorMessage::kProbeData), IsEmpty());
  EXPECT_EQ(Job(job).reason(), "2 workers can run no ranks (worker-0: its data root /data cannot be read, ...)");
  Beat(2, "");
  const std::vector<Action> asked = Taken(CoordinatorMessage::kProbeData);
  ASSERT_THAT(asked, SizeIs(1));
  EXPECT_EQ(asked[0].to, 2);
}

TEST_F(UnfitWorkersTest, WhatItTellsIsCutAndMadePrintable) {
  Connect(1, "worker-0", 1);
  Beat(1, "gone\x1b[31m\xff" + std::string(100000, 'x'));
  EXPECT_LE(Worker(0).condition().size(), kMaxErrorBytes);
  EXPECT_THAT(Worker(0).condition(), HasSubstr("gone\\x1b[31m\\xff"));
  const std::string job = Submit(Spec("net", 1));
  EXPECT_LE(Job(job).reason().size(), 512);
  EXPECT_THAT(Job(job).reason(), Not(HasSubstr("\x1b")));
}

}  // namespace
}  // namespace adjoin
