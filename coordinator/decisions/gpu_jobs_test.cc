// Jobs whose ranks need GPUs: no GPU is counted twice, whatever the daemons and the coordinator do.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "coordinator/decisions/coordination_fixture.h"
#include "proto/message_limits.h"

namespace adjoin {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::SizeIs;

class GpuJobsTest : public CoordinationTest {
 protected:
  static WorkerHello HelloWithGpus(const std::string& name, uint32_t slots, int gpus, uint64_t incarnation = 1) {
    WorkerHello hello = Hello(name, slots, incarnation);
    for (int i = 0; i < gpus; ++i) {
      Gpu& gpu = *hello.add_gpu();
      gpu.set_index(i);
      gpu.set_uuid(absl::StrCat("GPU-", i, "-of-", name));
      gpu.set_name("Test GPU");
      gpu.set_memory_bytes(uint64_t{80} << 30);
    }
    return hello;
  }
  static JobSpec GpuSpec(const std::string& name, uint32_t ranks) {
    JobSpec spec = Spec(name, ranks);
    spec.mutable_resources()->set_gpus(1);
    return spec;
  }
  WorkerSummary Worker(int index) { return List()->worker(index); }
  // Connection and number of ranks of each order to start ranks since the last call.
  std::map<ConnectionId, int> Started() {
    std::map<ConnectionId, int> ranks;
    for (const Action& action : Taken(CoordinatorMessage::kStartRanks)) {
      ranks[action.to] = action.message.start_ranks().rank_size();
    }
    return ranks;
  }
  void ReadyWithGpu(ConnectionId from, const std::string& job, uint32_t rank, const std::string& uuid) {
    WorkerMessage message = Message(job);
    message.mutable_rank_ready()->set_job_id(job);
    message.mutable_rank_ready()->set_rank(rank);
    message.mutable_rank_ready()->set_transport_address("address");
    message.mutable_rank_ready()->set_gpu_uuid(uuid);
    Say(from, message);
  }
  RankStatus Rank(const std::string& job, int rank) { return Describe(job)->rank(rank); }
  void End(ConnectionId from, const std::string& job, uint32_t rank) {
    Ready(from, job, rank);
    Ended(from, job, rank, "");
    Cleared(from, job);
  }
};

TEST_F(GpuJobsTest, AWorkerGivesAsManyRanksAsItHasFreeGpus) {
  Connect(1, HelloWithGpus("worker-0", 4, 2));
  Connect(2, HelloWithGpus("worker-1", 4, 1));
  Connect(3, Hello("worker-2", 8));
  const std::string job = Submit(GpuSpec("net", 3));
  const std::vector<Action> started = Taken(CoordinatorMessage::kStartRanks);
  ASSERT_THAT(started, SizeIs(2));
  for (const Action& action : started) EXPECT_EQ(action.message.start_ranks().gpus(), 1);
  EXPECT_EQ(started[0].message.start_ranks().rank_size(), 2);
  EXPECT_EQ(started[1].message.start_ranks().rank_size(), 1);
  EXPECT_EQ(Worker(0).gpus(), 2);
  EXPECT_EQ(Worker(0).free_gpus(), 0);
  EXPECT_EQ(Worker(0).free_slots(), 2);
  EXPECT_EQ(Worker(1).free_gpus(), 0);
  EXPECT_EQ(Worker(2).gpus(), 0);

  const std::string waits = Submit(GpuSpec("second", 1));
  EXPECT_EQ(Job(waits).reason(), "needs 1 slot, 13 of 16 free on 3 workers, and 1 GPU, 0 of 3 free on 2 workers");
  const std::string plain = Submit(Spec("plain", 8));
  EXPECT_EQ(Job(plain).state(), STARTING) << "a job without GPUs does not count against them";
  const std::string large = Submit(GpuSpec("large", 4));
  EXPECT_THAT(Job(large).reason(),
              HasSubstr("4 GPUs, 0 of 3 free on 2 workers; it starts when workers with more GPUs"));
}

TEST_F(GpuJobsTest, AGpuIsFreeAgainWhenNoProcessOfTheAttemptIsLeft) {
  Connect(1, HelloWithGpus("worker-0", 4, 1));
  const std::string first = Submit(GpuSpec("first", 1));
  const std::string second = Submit(GpuSpec("second", 1));
  EXPECT_THAT(Started(), ElementsAre(Pair(1, 1)));
  Ready(1, first, 0);
  Ended(1, first, 0, "");
  EXPECT_EQ(Job(first).state(), SUCCEEDED);
  EXPECT_THAT(Started(), IsEmpty()) << "its process may still have the GPU";
  EXPECT_EQ(Worker(0).free_gpus(), 0);
  Cleared(1, first);
  EXPECT_THAT(Started(), ElementsAre(Pair(1, 1)));
  EXPECT_EQ(Job(second).state(), STARTING);
}

TEST_F(GpuJobsTest, AnotherCoordinatorKnowsWhatIsHeld) {
  Connect(1, HelloWithGpus("worker-0", 4, 2));
  const std::string first = Submit(GpuSpec("first", 2));
  ReadyWithGpu(1, first, 0, "GPU-1-of-worker-0");
  ReadyWithGpu(1, first, 1, "");
  EXPECT_THAT(Started(), ElementsAre(Pair(1, 2)));
  Restart();
  EXPECT_EQ(Rank(first, 0).gpu().uuid(), "GPU-1-of-worker-0");
  WorkerHello hello = HelloWithGpus("worker-0", 4, 2);
  *hello.add_attempt() = Report(first, 0);
  RankReport& other = *hello.mutable_attempt(0)->add_rank();
  other.set_rank(1);
  other.set_gpu_uuid("GPU-0-of-worker-0");
  Connect(2, hello);
  const std::string second = Submit(GpuSpec("second", 1));
  EXPECT_EQ(Job(second).state(), PENDING);
  EXPECT_THAT(Started(), IsEmpty());
  EXPECT_EQ(Worker(0).free_gpus(), 0);
  EXPECT_EQ(Rank(first, 1).gpu().uuid(), "GPU-0-of-worker-0");
}

TEST_F(GpuJobsTest, DescribeShowsTheGpusThatTheDaemonReportsOfThoseThatItHas) {
  Connect(1, HelloWithGpus("worker-0", 4, 2));
  const std::string job = Submit(GpuSpec("net", 2));
  EXPECT_FALSE(Rank(job, 0).has_gpu());
  ReadyWithGpu(1, job, 0, "GPU-1-of-worker-0");
  ReadyWithGpu(1, job, 1, "GPU-that-nobody-has");
  EXPECT_EQ(Rank(job, 0).gpu().index(), 1);
  EXPECT_EQ(Rank(job, 0).gpu().name(), "Test GPU");
  EXPECT_EQ(Rank(job, 0).gpu().memory_bytes(), uint64_t{80} << 30);
  EXPECT_FALSE(Rank(job, 1).has_gpu());
}

TEST_F(GpuJobsTest, ADaemonThatIsStartedAnewMayHaveFewerGpus) {
  Connect(1, HelloWithGpus("worker-0", 4, 2));
  Submit(GpuSpec("net", 2));
  service_->WorkerDisconnected(1, "gone");
  WorkerHello other_node = HelloWithGpus("worker-0", 4, 1, /*incarnation=*/2);
  other_node.set_node_id("another node");  // the lease of the first one has to end before anything is free
  Connect(2, other_node);
  EXPECT_EQ(Worker(0).gpus(), 1);
  EXPECT_EQ(Worker(0).free_gpus(), 0);
}

TEST_F(GpuJobsTest, BehindAJobThatWaitsForGpusAnotherLeavesASlotToEachGpu) {
  Connect(1, HelloWithGpus("worker-0", 4, 2));
  const std::string first = Submit(GpuSpec("first", 1));
  const std::string head = Submit(GpuSpec("head", 2));
  EXPECT_THAT(Job(head).reason(), HasSubstr("2 GPUs, 1 of 2 free on 1 worker"));
  const std::string plain = Submit(Spec("plain", 2));
  EXPECT_EQ(Job(plain).state(), STARTING);
  const std::string more = Submit(Spec("more", 1));
  EXPECT_EQ(Job(more).state(), PENDING) << "it would have the slot of the second GPU";
  EXPECT_THAT(Job(more).reason(), HasSubstr(absl::StrCat("it could delay ", head)));
  const std::string small = Submit(GpuSpec("small", 1));
  EXPECT_EQ(Job(small).state(), PENDING) << "it would have the second GPU";
  End(1, first, 0);
  EXPECT_EQ(Job(head).state(), STARTING);
  EXPECT_EQ(Job(more).state(), PENDING);
}

TEST_F(GpuJobsTest, AGpuThatCannotDelayTheHeadIsGiven) {
  Connect(1, HelloWithGpus("worker-0", 4, 4));
  const std::string first = Submit(GpuSpec("first", 3));
  EXPECT_EQ(Job(first).state(), STARTING);
  const std::string head = Submit(GpuSpec("head", 3));
  const std::string small = Submit(GpuSpec("small", 1));
  EXPECT_EQ(Job(small).state(), STARTING) << "the end of the first job brings three";
  for (uint32_t rank = 0; rank < 3; ++rank) Ready(1, first, rank);
  for (uint32_t rank = 0; rank < 3; ++rank) Ended(1, first, rank, "");
  Cleared(1, first);
  EXPECT_EQ(Job(head).state(), STARTING) << "though the other one still has its GPU";
}

TEST_F(GpuJobsTest, AHelloWithGpusThatCannotBeIsRefused) {
  const auto refusal = [&](const WorkerHello& hello) {
    const absl::Status status = service_->WorkerConnected(9, hello);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    return std::string(status.message());
  };
  EXPECT_EQ(refusal(HelloWithGpus("worker-0", 4, kMaxGpus + 1)), "the worker has 257 GPUs; at most 256 are possible");
  WorkerHello hello = HelloWithGpus("worker-0", 4, 2);
  hello.mutable_gpu(1)->set_name("\x1b[2J");
  EXPECT_THAT(refusal(hello), HasSubstr("the worker's GPU's name"));
  hello.mutable_gpu(1)->set_name(std::string(kMaxNameBytes + 1, 'a'));
  EXPECT_THAT(refusal(hello), HasSubstr("257 bytes"));
  hello = HelloWithGpus("worker-0", 4, 2);
  hello.mutable_gpu(1)->set_uuid("a\nb");
  EXPECT_THAT(refusal(hello), HasSubstr("the worker's GPU's UUID"));
  hello.mutable_gpu(1)->set_uuid("");
  EXPECT_EQ(refusal(hello), "worker-0 offers a GPU without a UUID: each needs a UUID of its own");
  hello.mutable_gpu(1)->set_uuid(hello.gpu(0).uuid());
  EXPECT_EQ(refusal(hello), "worker-0 offers GPU-0-of-worker-0 twice: each needs a UUID of its own");
}

TEST_F(GpuJobsTest, AWorkerThatOffersAGpuOfAnotherHasNone) {
  Connect(1, HelloWithGpus("worker-0", 4, 2));
  WorkerHello other = HelloWithGpus("worker-1", 4, 1);
  *other.add_gpu() = HelloWithGpus("worker-0", 4, 2).gpu(1);
  Connect(2, other);
  EXPECT_EQ(Worker(0).gpus(), 2);
  EXPECT_EQ(Worker(1).gpus(), 0) << "its daemon could give the shared one to a rank";
  Connect(3, HelloWithGpus("worker-0", 4, 2));  // the same daemon comes again
  EXPECT_EQ(Worker(0).gpus(), 2);
  // While a lost worker may have ranks, its GPUs are its own.
  Submit(GpuSpec("net", 2));
  service_->WorkerDisconnected(3, "gone");
  now_ += options_.suspect_after + absl::Seconds(1);
  Connect(4, other);
  EXPECT_EQ(Worker(1).gpus(), 0);
}

}  // namespace
}  // namespace adjoin
