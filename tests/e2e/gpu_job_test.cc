// Jobs that need GPUs, through a real coordinator and real daemons, on devices that are as asynchronous as real ones
// (gpu_rank_main.cc).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/time/time.h"
#include "base/deadline.h"
#include "proto/coordinator.pb.h"
#include "tests/e2e/mnist_jobs.h"
#include "tests/harness/child_process.h"
#include "tests/harness/local_cluster.h"

namespace adjoin {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr int kSteps = 12;
constexpr double kTolerance = 1e-10;

Deadline Within(double seconds) { return Deadline::After(absl::Seconds(seconds)); }

// LeNet-5; the ranks share the batch.
std::string Job(const std::string& name, int ranks, int steps, bool gpus) {
  return absl::StrReplaceAll(ReadFile(Runfile("examples/mnist/lenet5-sync-sgd.textproto")),
                             {{"output_dir: \"lenet5-sync-sgd\"",
                               absl::StrCat("output_dir: \"", name, "\" resources {", gpus ? " gpus: 1" : "", " }")},
                              {"ranks: 4", absl::StrCat("ranks: ", ranks)},
                              {"seed: 1\n", "seed: 1 precision { compute: \"float64\" params: \"float64\" }\n"},
                              {"partition: [4,", absl::StrCat("partition: [", ranks, ",")},
                              {"epochs: 8", absl::StrCat("steps: ", steps)}});
}

class GpuJobTest : public ::testing::Test {
 protected:
  // Two daemons with a GPU each, as if they were on two machines.
  static absl::StatusOr<std::unique_ptr<LocalCluster>> Cluster() {
    LocalClusterOptions options;
    options.rank_binary = "tests/e2e/gpu-rank";
    options.worker[0].flags = {"--gpus", "0"};
    options.worker[1].flags = {"--gpus", "1"};
    return LocalCluster::Start(/*nodes=*/2, /*slots_per_node=*/3, std::move(options));
  }
};

TEST_F(GpuJobTest, TrainsOnGpusWhatItTrainsOnTheHost) {
  auto cluster = Cluster();
  ASSERT_TRUE(cluster.ok()) << cluster.status();
  for (const bool gpus : {true, false}) {
    const auto job = (*cluster)->Submit(Job(gpus ? "on-gpus" : "on-the-host", 2, kSteps, gpus));
    ASSERT_TRUE(job.ok()) << job.status();
    const auto end = (*cluster)->WaitFor(*job, Within(120));
    ASSERT_TRUE(end.ok()) << end.status();
    ASSERT_EQ(end->state(), SUCCEEDED) << end->reason();
    const auto described = (*cluster)->Describe(*job);
    ASSERT_TRUE(described.ok()) << described.status();
    std::set<std::string> seen;
    for (const RankStatus& rank : described->rank()) {
      EXPECT_EQ(rank.has_gpu(), gpus);
      if (!gpus) {
        EXPECT_THAT(rank.transport(), Not(HasSubstr("staged")));
        continue;
      }
      EXPECT_EQ(rank.worker(), absl::StrCat("worker-", rank.gpu().index()));
      EXPECT_THAT(rank.transport(), HasSubstr(absl::StrCat("staged by fake device ", rank.gpu().index())));
      seen.insert(rank.gpu().uuid());
    }
    EXPECT_EQ(seen.size(), gpus ? 2 : 0);
  }
  const auto on_gpus = ReadOutput((*cluster)->output_root() + "/on-gpus");
  const auto on_host = ReadOutput((*cluster)->output_root() + "/on-the-host");
  ASSERT_TRUE(on_gpus.ok()) << on_gpus.status();
  ASSERT_TRUE(on_host.ok()) << on_host.status();
  ASSERT_EQ(on_host->losses.size(), kSteps);
  ASSERT_EQ(on_gpus->losses.size(), kSteps);
  for (int step = 0; step < kSteps; ++step) {
    EXPECT_NEAR(on_gpus->losses[step], on_host->losses[step], kTolerance) << "step " << step + 1;
  }
  EXPECT_EQ(on_gpus->correct, on_host->correct);
  EXPECT_GT(on_host->correct, 0);
  ASSERT_EQ(on_gpus->weights.size(), on_host->weights.size());
  for (const auto& [name, expected] : on_host->weights) {
    const double largest = expected.abs().max().item<double>();
    EXPECT_LE((on_gpus->weights.at(name) - expected).abs().max().item<double>(), kTolerance * largest) << name;
  }
  EXPECT_EQ((*cluster)->Stop(), absl::OkStatus());
}

TEST_F(GpuJobTest, AnotherJobWaitsForAFreeGpu) {
  auto cluster = Cluster();
  ASSERT_TRUE(cluster.ok()) << cluster.status();
  const auto first = (*cluster)->Submit(Job("first", 2, 1000000, true));
  ASSERT_TRUE(first.ok()) << first.status();
  const auto trains = [](const JobSummary& job) { return job.progress().step() > 0; };
  auto state = (*cluster)->WaitUntil(*first, trains, Within(120));
  ASSERT_TRUE(state.ok()) << state.status();

  const auto second = (*cluster)->Submit(Job("second", 1, 2, true));
  ASSERT_TRUE(second.ok()) << second.status();
  const std::string reason = "needs 1 slot, 4 of 6 free on 2 workers, and 1 GPU, 0 of 2 free on 2 workers";
  const auto waits = [&](const JobSummary& job) { return job.reason() == reason; };
  state = (*cluster)->WaitUntil(*second, waits, Within(60));
  ASSERT_TRUE(state.ok()) << state.status();
  EXPECT_EQ(state->state(), PENDING);
  const LocalCluster::CliResult shown = (*cluster)->Cli({"ps"});
  EXPECT_THAT(shown.out, AllOf(HasSubstr("MEMORY"), HasSubstr("GPUS  FREE  STATE")));
  EXPECT_THAT(shown.out, HasSubstr(reason.substr(0, 20)));
  EXPECT_THAT((*cluster)->Cli({"describe", *first}).out, HasSubstr("1 Fake GPU 1"));
  EXPECT_THAT((*cluster)->Cli({"ps", "-o", "json"}).out, HasSubstr("gpus"));

  // A coordinator that starts anew knows who has the GPUs.
  const auto before = (*cluster)->Describe(*first);
  ASSERT_TRUE(before.ok()) << before.status();
  ASSERT_EQ((*cluster)->KillCoordinator(), absl::OkStatus());
  ASSERT_EQ((*cluster)->RestartCoordinator(), absl::OkStatus());
  state = (*cluster)->WaitUntil(*second, waits, Within(60));
  ASSERT_TRUE(state.ok()) << state.status();
  const auto after = (*cluster)->Describe(*first);
  ASSERT_TRUE(after.ok()) << after.status();
  for (int rank = 0; rank < 2; ++rank) {
    EXPECT_NE(after->rank(rank).gpu().uuid(), "");
    EXPECT_EQ(after->rank(rank).gpu().uuid(), before->rank(rank).gpu().uuid());
  }

  // Jobs without GPUs do not wait for them.
  const auto plain = (*cluster)->Submit(Job("plain", 1, 2, false));
  ASSERT_TRUE(plain.ok()) << plain.status();
  state = (*cluster)->WaitFor(*plain, Within(120));
  ASSERT_TRUE(state.ok()) << state.status();
  EXPECT_EQ(state->state(), SUCCEEDED) << state->reason();

  EXPECT_EQ((*cluster)->Cli({"cancel", *first}).exit_code, 0);
  state = (*cluster)->WaitFor(*second, Within(120));
  ASSERT_TRUE(state.ok()) << state.status();
  EXPECT_EQ(state->state(), SUCCEEDED) << state->reason();
  EXPECT_EQ((*cluster)->WaitUntilIdle(Within(60)), absl::OkStatus());
  EXPECT_EQ((*cluster)->Stop(), absl::OkStatus());
}

TEST_F(GpuJobTest, ADaemonDoesNotStartWithAGpuThatIsNotThere) {
  LocalClusterOptions options;
  options.rank_binary = "tests/e2e/gpu-rank";
  options.worker_flags = {"--gpus", "0,2"};
  const absl::Status refused = LocalCluster::Start(1, 1, std::move(options)).status();
  EXPECT_THAT(std::string(refused.message()), HasSubstr("--gpus 0,2: there is no GPU 2; this node has 0-1"));
}

}  // namespace
}  // namespace adjoin
