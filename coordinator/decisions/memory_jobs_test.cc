// Jobs whose plans tell how much memory a rank takes: refused where no node ever has so much, and placed where it is
// free.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/testing/test_seed.h"
#include "coordinator/decisions/coordination_fixture.h"
#include "coordinator/decisions/memory_need.h"

namespace adjoin {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::Pair;

constexpr int64_t kGiB = int64_t{1} << 30;

class MemoryJobsTest : public CoordinationTest {
 protected:
  static WorkerHello HelloWithMemory(const std::string& name, uint32_t slots, int gib) {
    WorkerHello hello = Hello(name, slots);
    hello.set_memory_bytes(gib * kGiB);
    return hello;
  }
  static void AddGpu(WorkerHello& hello, int gib) {
    Gpu& gpu = *hello.add_gpu();
    gpu.set_uuid(absl::StrCat("GPU-", hello.gpu_size(), "-of-", hello.name()));
    gpu.set_memory_bytes(gib * kGiB);
  }
  // A job of this name, each rank of which takes so much.
  JobSpec Taking(const std::string& name, uint32_t ranks, int gib, int tensor_gib = 0) {
    predicted_[name].set_resident_bytes(gib * kGiB);
    predicted_[name].set_tensor_bytes((tensor_gib > 0 ? tensor_gib : gib) * kGiB);
    return Spec(name, ranks);
  }
  // What becomes of a submission; "" where it is accepted.
  std::string Refusal(const JobSpec& spec) {
    NewJob job;
    job.spec = spec;
    const absl::StatusOr<Submitted> submitted = service_->Submit(std::move(job));
    EXPECT_TRUE(submitted.ok()) << submitted.status();
    Settle();
    absl::Status reason;
    if (service_->AdmissionOf(submitted->job_id, &reason) != Admission::kRefused) return "";
    EXPECT_EQ(reason.code(), absl::StatusCode::kFailedPrecondition);
    return std::string(reason.message());
  }
  WorkerSummary Worker(int index) { return List()->worker(index); }
  // Connection and number of ranks of each order to start ranks since the last call.
  std::map<ConnectionId, int> Started() {
    std::map<ConnectionId, int> ranks;
    for (const Action& action : Taken(CoordinatorMessage::kStartRanks)) {
      ranks[action.to] += action.message.start_ranks().rank_size();
    }
    return ranks;
  }
  // Ends the job with all its ranks on one connection.
  void End(ConnectionId from, const std::string& job, uint32_t ranks) {
    for (uint32_t rank = 0; rank < ranks; ++rank) Ready(from, job, rank);
    for (uint32_t rank = 0; rank < ranks; ++rank) Ended(from, job, rank, "");
    Cleared(from, job);
  }
};

TEST_F(MemoryJobsTest, AJobThatFitsOnNoNodeIsRefusedWithTheSum) {
  Connect(1, HelloWithMemory("worker-1", 4, 4));
  Connect(2, HelloWithMemory("worker-2", 4, 8));
  EXPECT_EQ(
      Refusal(Taking("large", 2, 9)),
      "a rank needs about 9.00 GiB (parameters 1.00 GiB), in the backward pass of \"conv1\"; the largest node, "
      "worker-2, offers 8.00 GiB for ranks; what helps: more ranks, micro-batches, recompute, `adjoin plan --auto "
      "--memory`");
  EXPECT_EQ(List()->job_size(), 0) << "nothing is kept";
  EXPECT_EQ(Refusal(Taking("exact", 1, 8)), "");
}

TEST_F(MemoryJobsTest, AJobThatReadsNoFileIsRefusedAtOnce) {
  Connect(1, HelloWithMemory("worker-1", 4, 4));
  NewJob job;
  job.spec = Taking("large", 2, 9);
  job.plan = PlannedJob{"plan", "hash", predicted_["large"], "(parameters 1.00 GiB)"};
  EXPECT_THAT(std::string(service_->Submit(std::move(job)).status().message()), HasSubstr("about 9.00 GiB"));
}

TEST_F(MemoryJobsTest, NothingIsRefusedWhereANodeMayHaveRoom) {
  EXPECT_EQ(Refusal(Taking("early", 1, 9)), "") << "no node is connected";
  Connect(1, HelloWithMemory("worker-1", 4, 4));
  EXPECT_EQ(Refusal(Spec("unknown", 1)), "") << "the plan does not tell";
  EXPECT_EQ(Refusal(Taking("many", 50, 1)), "") << "as with slots, it waits for more nodes";
  Connect(2, Hello("worker-2", 4));
  EXPECT_EQ(Refusal(Taking("large", 1, 9)), "") << "worker-2 does not tell";
}

TEST_F(MemoryJobsTest, ANodeThatRunsNothingForAWhileCounts) {
  Connect(1, HelloWithMemory("worker-1", 4, 4));
  WorkerHello unfit = HelloWithMemory("worker-2", 4, 16);
  unfit.set_condition("its output root is gone");
  Connect(2, unfit);
  EXPECT_EQ(Refusal(Taking("large", 1, 9)), "");
  EXPECT_THAT(Refusal(Taking("larger", 1, 17)), HasSubstr("worker-2, offers 16.0 GiB"));
}

TEST_F(MemoryJobsTest, OnlyNodesWithTheLabelsOfTheJobCount) {
  WorkerHello large = HelloWithMemory("worker-1", 4, 64);
  (*large.mutable_label())["zone"] = "a";
  Connect(1, large);
  WorkerHello small = HelloWithMemory("worker-2", 4, 8);
  (*small.mutable_label())["zone"] = "b";
  Connect(2, small);
  JobSpec spec = Taking("large", 1, 9);
  (*spec.mutable_resources()->mutable_node_label())["zone"] = "b";
  EXPECT_THAT(Refusal(spec), HasSubstr("worker-2, offers 8.00 GiB"));
}

TEST_F(MemoryJobsTest, AnAcceptedJobWaitsForANodeWithMore) {
  const std::string job = Submit(Taking("early", 1, 9));
  Connect(1, HelloWithMemory("worker-1", 4, 4));
  EXPECT_EQ(Job(job).state(), PENDING);
  EXPECT_EQ(
      Job(job).reason(),
      "needs 1 slot, 4 of 4 free on 1 worker; each rank takes 9.00 GiB of memory, for which 0 ranks find room; it "
      "starts when workers with more memory connect");
  const std::string small = Submit(Taking("small", 4, 1));
  EXPECT_EQ(Job(small).state(), STARTING) << "the other one could not start here in any case";
  Connect(2, HelloWithMemory("worker-2", 1, 16));
  EXPECT_EQ(Job(job).state(), STARTING);
}

TEST_F(MemoryJobsTest, RanksGoWhereMemoryIsFree) {
  Connect(1, HelloWithMemory("worker-0", 8, 8));
  Connect(2, HelloWithMemory("worker-1", 8, 16));
  const std::string job = Submit(Taking("net", 5, 4));
  EXPECT_THAT(Started(), ElementsAre(Pair(1, 1), Pair(2, 4)));
  EXPECT_EQ(Worker(0).memory_bytes(), 8 * kGiB);
  EXPECT_EQ(Worker(0).free_memory_bytes(), 4 * kGiB);
  EXPECT_EQ(Worker(1).free_memory_bytes(), 0);
  const std::string next = Submit(Taking("next", 2, 3));
  EXPECT_EQ(Job(next).state(), PENDING);
  EXPECT_THAT(Job(next).reason(), HasSubstr("each rank takes 3.00 GiB of memory, for which 1 rank finds room"));
  const std::string unknown = Submit(Spec("unknown", 1));
  EXPECT_THAT(Job(unknown).state(), PENDING) << "it could delay the job that waits";
  for (uint32_t rank = 0; rank < 5; ++rank) Ready(rank < 1 ? 1 : 2, job, rank);
  const std::string on_first = Describe(job)->rank(0).worker();
  for (uint32_t rank = 0; rank < 5; ++rank) {
    const std::string worker = Describe(job)->rank(rank).worker();
    Ready(worker == "worker-0" ? 1 : 2, job, rank);
  }
  for (uint32_t rank = 0; rank < 5; ++rank) {
    const std::string worker = Describe(job)->rank(rank).worker();
    Ended(worker == "worker-0" ? 1 : 2, job, rank, "");
  }
  Cleared(1, job);
  Cleared(2, job);
  EXPECT_EQ(Job(next).state(), STARTING);
  EXPECT_EQ(Job(unknown).state(), STARTING);
}

TEST_F(MemoryJobsTest, TensorsOnAGpuNeedItsMemory) {
  WorkerHello hello = HelloWithMemory("worker-0", 4, 8);
  AddGpu(hello, 80);
  AddGpu(hello, 40);
  Connect(1, hello);
  WorkerHello small = HelloWithMemory("worker-1", 4, 8);
  AddGpu(small, 48);
  Connect(2, small);
  JobSpec spec = Taking("net", 1, 2, /*tensor_gib=*/44);
  spec.mutable_resources()->set_gpus(1);
  Submit(spec);
  EXPECT_THAT(Started(), ElementsAre(Pair(2, 1))) << "the daemon of worker-0 may give it the smaller one";
  spec = Taking("large", 1, 2, /*tensor_gib=*/50);
  spec.mutable_resources()->set_gpus(1);
  EXPECT_THAT(Refusal(spec), AllOf(HasSubstr("needs about 50.0 GiB"), HasSubstr("largest GPU, of worker-1, has 48.0")));
  spec = Taking("host", 1, 9, /*tensor_gib=*/1);
  spec.mutable_resources()->set_gpus(1);
  EXPECT_THAT(Refusal(spec), HasSubstr("takes 9.00 GiB of the node's own memory"));
}

TEST_F(MemoryJobsTest, AnotherCoordinatorKnowsWhatWasPromised) {
  Connect(1, HelloWithMemory("worker-0", 8, 8));
  const std::string job = Submit(Taking("net", 3, 2));
  Started();
  Restart();
  EXPECT_EQ(Describe(job)->predicted().resident_bytes(), 2 * kGiB);
  WorkerHello hello = HelloWithMemory("worker-0", 8, 8);
  *hello.add_attempt() = Report(job, 0);
  for (uint32_t rank : {1, 2}) *hello.mutable_attempt(0)->add_rank() = Report(job, rank).rank(0);
  Connect(2, hello);
  EXPECT_EQ(Worker(0).free_memory_bytes(), 2 * kGiB);
  Submit(Taking("second", 1, 3));
  EXPECT_THAT(Started(), IsEmpty());
}

TEST_F(MemoryJobsTest, NothingIsRefusedWhileWorkersMayComeBackToAnotherCoordinator) {
  Connect(1, HelloWithMemory("large", 8, 16));
  Submit(Taking("net", 3, 2));
  Restart();
  Connect(2, HelloWithMemory("small", 8, 4));
  EXPECT_EQ(Refusal(Taking("early", 1, 9)), "") << "the large worker has not come back yet";
  Pass(31, {2});
  EXPECT_THAT(Refusal(Taking("late", 1, 9)), HasSubstr("the largest node, small, offers 4.00 GiB"));
}

TEST_F(MemoryJobsTest, AStoreOfAnOlderCoordinatorOpens) {
  Connect(1, HelloWithMemory("worker-0", 8, 8));
  const std::string job = Submit(Taking("net", 3, 2));
  for (StoredJob& row : stored_.jobs) row.clear_predicted();
  Restart();
  EXPECT_FALSE(Describe(job)->has_predicted());
  Connect(2, HelloWithMemory("worker-1", 8, 8));
  Submit(Taking("second", 4, 2));
  EXPECT_THAT(Started(), Not(IsEmpty()));
}

TEST_F(MemoryJobsTest, AJobBehindTakesNoMemoryThatTheHeadMayWaitFor) {
  Connect(1, HelloWithMemory("worker-0", 8, 8));
  const std::string first = Submit(Taking("first", 1, 4));
  const std::string head = Submit(Taking("head", 2, 4));
  EXPECT_EQ(Job(head).state(), PENDING);
  const std::string small = Submit(Taking("small", 1, 2));
  EXPECT_EQ(Job(small).state(), PENDING);
  EXPECT_THAT(Job(small).reason(), HasSubstr(absl::StrCat("it could delay ", head)));
  Connect(2, HelloWithMemory("worker-1", 2, 3));
  EXPECT_EQ(Job(small).state(), STARTING) << "no rank of the head fits there";
  End(1, first, 1);
  EXPECT_EQ(Job(head).state(), STARTING);
}

TEST_F(MemoryJobsTest, BehindAHeadThatWaitsForSlotsAJobTakesMemoryThatIsLeft) {
  Connect(1, HelloWithMemory("worker-0", 6, 20));
  const std::string first = Submit(Taking("first", 4, 1));
  const std::string second = Submit(Taking("head", 5, 1));
  EXPECT_EQ(Job(second).state(), PENDING);
  // The end of the first one brings four slots: one more than is missing.
  const std::string huge = Submit(Taking("huge", 1, 17));
  EXPECT_EQ(Job(huge).state(), PENDING) << "the head could not have the memory of all its slots";
  const std::string large = Submit(Taking("large", 1, 15));
  EXPECT_EQ(Job(large).state(), STARTING);
  End(1, first, 4);
  EXPECT_EQ(Job(second).state(), STARTING);
}

TEST_F(MemoryJobsTest, AHelloWithTooMuchMemoryIsRefused) {
  WorkerHello hello = Hello("worker-0", 4);
  hello.set_memory_bytes(~uint64_t{0});
  EXPECT_THAT(std::string(service_->WorkerConnected(1, hello).message()), HasSubstr("give it another --memory"));
}

// Whatever starts and ends, no worker's ranks are promised more than it has, and the first job of the queue starts no
// later for those behind it: not after jobs that came later have taken what it could have had.
TEST_F(MemoryJobsTest, NoWorkerPromisesMoreThanItHas) {
  const uint64_t seed = TestSeed();
  std::mt19937 random(seed);
  SCOPED_TRACE(absl::StrCat("seed ", seed));
  std::vector<std::string> jobs;
  for (int i = 0; i < 4; ++i) {
    Connect(i + 1, HelloWithMemory(absl::StrCat("worker-", i), 1 + random() % 8, 1 + static_cast<int>(random() % 16)));
  }
  for (int i = 0; i < 200; ++i) {
    const std::string name = absl::StrCat("net-", i);
    const JobSpec spec = Taking(name, 1 + random() % 6, 1 + static_cast<int>(random() % 12));
    if (Refusal(spec).empty()) jobs.push_back(absl::StrCat("job-", i + 1));
    if (random() % 3 == 0 && !jobs.empty()) {
      (void)service_->Cancel({jobs[random() % jobs.size()], ""});
      Settle();
    }
    for (ConnectionId from = 1; from <= 4; ++from) {
      for (const std::string& job : jobs) {
        if (Summary({job, ""}).ok() && Job(job).state() == CANCELLED && random() % 2 == 0) Cleared(from, job);
      }
    }
    std::map<std::string, int64_t> promised;
    for (const std::string& job : jobs) {
      if (Job(job).state() != STARTING) continue;
      const DescribeJobResponse described = *Describe(job);
      for (const RankStatus& rank : described.rank()) {
        promised[rank.worker()] += described.predicted().resident_bytes();
      }
    }
    for (int worker = 0; worker < 4; ++worker) {
      const WorkerSummary now = Worker(worker);
      ASSERT_LE(promised[now.name()] + static_cast<int64_t>(now.free_memory_bytes()),
                static_cast<int64_t>(now.memory_bytes()));
    }
    now_ += absl::Milliseconds(10);
  }
}

TEST(MemoryNeedTest, ALayerNameInTheSumIsShownAsText) {
  PlannedJob planned;
  planned.predicted.set_resident_bytes(9 * kGiB);
  planned.memory = "in the backward pass of \"\x1b[2J\"";
  const absl::Status status =
      CheckMemory(planned, JobSpec(), {{.worker = "a", .slots = 1, .memory = std::optional<int64_t>(kGiB)}});
  EXPECT_THAT(std::string(status.message()), Not(HasSubstr("\x1b")));
}

}  // namespace
}  // namespace adjoin
