// The GPUs that ranks of a daemon get: each one rank at a time.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "base/deadline.h"
#include "base/monotonic_condition.h"
#include "worker/daemon/attempts.h"
#include "worker/daemon/mount_calls.h"

namespace adjoin {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class NoPeer final : public RankPeer {
 public:
  void Send(const DaemonMessage& message) override {
    if (message.has_start()) start = message.start();
  }
  RankStart start;
};

// Ranks are processes that write down what they see, and wait until the test ends them.
class AttemptsGpusTest : public ::testing::Test {
 protected:
  AttemptsGpusTest() {
    folder_ = ::testing::TempDir() + "/attempts-XXXXXX";
    EXPECT_NE(mkdtemp(folder_.data()), nullptr);
    std::ofstream(folder_ + "/rank") << "#!/bin/sh\n"
                                     << "cd " << folder_ << "\n"
                                     << "name=$4-$8-$6\n"
                                     << "echo \"${CUDA_VISIBLE_DEVICES-unset}\" > new-$name\n"
                                     << "mv new-$name sees-$name\n"
                                     << "until [ -e end-$name ]; do sleep 0.02; done\n";
    chmod((folder_ + "/rank").c_str(), 0755);
    NodeAttempts::Settings settings;
    settings.rank_binary = folder_ + "/rank";
    settings.socket = "nowhere";
    settings.data_root = settings.output_root = folder_;
    settings.stop_grace = absl::Milliseconds(20);
    settings.prepare = [](const StartRanks&, const MountCalls::Enter&) { return absl::OkStatus(); };
    attempts_ = std::make_unique<NodeAttempts>(settings, [this](WorkerMessage message) {
      absl::MutexLock lock(&mutex_);
      sent_.push_back(std::move(message));
      changed_.NotifyAll();
    });
    std::vector<Gpu> gpus(2);
    gpus[0].set_uuid("GPU-a");
    gpus[1].set_uuid("GPU-b");
    attempts_->OfferGpus(gpus);
    attempts_->Connected();
  }
  ~AttemptsGpusTest() override {
    attempts_->KillAll("the test ends");
    EXPECT_TRUE(attempts_->WaitUntilCleared(Deadline::After(absl::Seconds(20))));
  }

  void Start(const std::string& job, uint64_t epoch, int ranks, uint32_t gpus) {
    StartRanks start;
    start.set_job_id(job);
    start.set_world_size(ranks);
    for (int rank = 0; rank < ranks; ++rank) start.add_rank(rank);
    start.set_gpus(gpus);
    attempts_->Start(epoch, start);
  }
  // CUDA_VISIBLE_DEVICES of a rank's process.
  std::string Sees(const std::string& job, uint64_t epoch, int rank) {
    const std::string file = absl::StrCat(folder_, "/sees-", job, "-", epoch, "-", rank);
    for (const Deadline deadline = Deadline::After(absl::Seconds(20)); !deadline.Expired();) {
      std::ifstream in(file);
      if (in.good()) return {std::istreambuf_iterator<char>(in), {}};
      absl::SleepFor(absl::Milliseconds(5));
    }
    return "no process";
  }
  void EndRank(const std::string& job, uint64_t epoch, int rank) {
    std::ofstream(absl::StrCat(folder_, "/end-", job, "-", epoch, "-", rank)) << "end";
  }
  bool WaitForCleared(const std::string& job, uint64_t epoch) {
    absl::MutexLock lock(&mutex_);
    return changed_.Wait(mutex_, Deadline::After(absl::Seconds(20)), [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      return std::any_of(sent_.begin(), sent_.end(), [&](const WorkerMessage& message) {
        return message.has_attempt_cleared() && message.attempt_cleared().job_id() == job &&
               message.header().epoch() == epoch;
      });
    });
  }
  // Why the ranks of the attempt did not start.
  std::vector<std::string> Errors(const std::string& job) {
    absl::MutexLock lock(&mutex_);
    std::vector<std::string> errors;
    for (const WorkerMessage& message : sent_) {
      if (message.has_rank_ended() && message.rank_ended().job_id() == job) {
        errors.push_back(message.rank_ended().error());
        EXPECT_EQ(message.rank_ended().end(), RANK_LOST);
        EXPECT_TRUE(message.rank_ended().infrastructure());
        EXPECT_FALSE(message.rank_ended().node_fault());
      }
    }
    return errors;
  }

  std::string folder_;
  absl::Mutex mutex_;
  MonotonicCondition changed_;
  std::vector<WorkerMessage> sent_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<NodeAttempts> attempts_;
};

TEST_F(AttemptsGpusTest, EachRankSeesAGpuOfItsOwnAndOneWithoutSeesNone) {
  Start("job-1", 1, 2, /*gpus=*/1);
  Start("job-2", 2, 1, /*gpus=*/0);
  EXPECT_EQ((std::set<std::string>{Sees("job-1", 1, 0), Sees("job-1", 1, 1)}),
            (std::set<std::string>{"GPU-a\n", "GPU-b\n"}));
  EXPECT_EQ(Sees("job-2", 2, 0), "\n") << "set, and empty";
}

TEST_F(AttemptsGpusTest, AGpuIsGivenAgainWhenNoProcessOfItsAttemptIsLeft) {
  Start("job-1", 1, 2, 1);
  EXPECT_THAT(Sees("job-1", 1, 0), HasSubstr("GPU"));
  EXPECT_THAT(Sees("job-1", 1, 1), HasSubstr("GPU"));
  EndRank("job-1", 1, 0);  // the other one still runs
  Start("job-2", 2, 1, 1);
  EXPECT_TRUE(WaitForCleared("job-2", 2));
  EXPECT_THAT(Errors("job-2"), ElementsAre("could not be started: needs 1 GPU, 0 of 2 free here"));
  attempts_->Stop("job-1", 1, "cancelled");
  EXPECT_TRUE(WaitForCleared("job-1", 1));
  Start("job-3", 3, 2, 1);  // the first attempt is not acknowledged yet
  EXPECT_EQ((std::set<std::string>{Sees("job-3", 3, 0), Sees("job-3", 3, 1)}),
            (std::set<std::string>{"GPU-a\n", "GPU-b\n"}));
}

TEST_F(AttemptsGpusTest, ItSaysWhichGpusItHasAndWhoHasThem) {
  Start("job-1", 1, 1, 1);
  const std::string sees = Sees("job-1", 1, 0);
  RankHello rank;
  rank.set_job_id("job-1");
  rank.set_pid(7);
  const auto peer = std::make_shared<NoPeer>();
  ASSERT_EQ(attempts_->RankConnected(1, rank, peer), absl::OkStatus());
  EXPECT_EQ(peer->start.device(), "cuda:0");
  RankMessage ready;
  ready.set_transport_address("address");
  attempts_->RankSaid({"job-1", 1, 0}, ready);
  {
    absl::MutexLock lock(&mutex_);
    ASSERT_FALSE(sent_.empty());
    EXPECT_EQ(sent_.back().rank_ready().gpu_uuid() + "\n", sees);
  }
  WorkerHello hello;
  attempts_->MakeReports(hello, [] {});
  ASSERT_EQ(hello.gpu_size(), 2);
  EXPECT_EQ(hello.gpu(1).uuid(), "GPU-b");
  ASSERT_EQ(hello.attempt_size(), 1);
  EXPECT_EQ(hello.attempt(0).rank(0).gpu_uuid() + "\n", sees);
}

TEST_F(AttemptsGpusTest, ARankWithoutAGpuIsOnTheHost) {
  Start("job-1", 1, 1, 0);
  EXPECT_EQ(Sees("job-1", 1, 0), "\n");
  RankHello rank;
  rank.set_job_id("job-1");
  const auto peer = std::make_shared<NoPeer>();
  ASSERT_EQ(attempts_->RankConnected(1, rank, peer), absl::OkStatus());
  EXPECT_EQ(peer->start.device(), "");
}

TEST_F(AttemptsGpusTest, NoRankGetsTwo) {
  Start("job-1", 1, 1, 2);
  EXPECT_TRUE(WaitForCleared("job-1", 1));
  EXPECT_THAT(Errors("job-1"),
              ElementsAre("could not be started: each rank needs 2 GPUs, and this release gives it one at most"));
}

}  // namespace
}  // namespace adjoin
