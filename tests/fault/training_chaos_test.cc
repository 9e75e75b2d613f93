// Jobs of real ranks train while coordinator, daemons and ranks are killed and stopped at random moments: each job
// succeeds, with the weights and the losses of an undisturbed run, bit for bit.
//
//   ADJOIN_TEST_SEED=7 bazel-bin/tests/fault/training_chaos_test     the kills of a run that failed, in the same order
//   ADJOIN_CHAOS_KILLS=300                                           how many
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <fstream>
#include <iostream>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/testing/test_seed.h"
#include "tests/fault/random_kills.h"
#include "tests/harness/child_process.h"
#include "tests/harness/leftovers.h"
#include "tests/harness/local_cluster.h"

namespace adjoin {
namespace {

using ::testing::IsEmpty;

constexpr int kNodes = 3;
constexpr int kSlots = 2;
constexpr size_t kAtOnce = 3;  // jobs that have not ended

Deadline Within(double seconds) { return Deadline::After(absl::Seconds(seconds)); }

// LeNet-5 on two ranks that share the batch.
std::string Job(const std::string& name) {
  return absl::StrReplaceAll(
      ReadFile(Runfile("examples/mnist/lenet5-sync-sgd.textproto")),
      {{"output_dir: \"lenet5-sync-sgd\"",
        absl::StrCat("output_dir: \"", name, "\" checkpoint { dir: \"", name, "-ckpt\" every_steps: 5 keep_last: 2 }",
                     " restart { max_restarts: 1000000 on: \"rank_lost\" on: \"node_lost\" }")},
       {"ranks: 4", "ranks: 2"},
       {"partition: [4,", "partition: [2,"},
       {"epochs: 8", "steps: 200"}});
}

// The losses of all steps as they are written.
std::vector<std::string> Losses(const std::string& folder) {
  std::vector<std::string> losses;
  std::ifstream in(folder + "/metrics.jsonl");
  for (std::string line; std::getline(in, line);) {
    if (line.find("\"type\": \"step\"") == std::string::npos) continue;
    const size_t begin = line.find("\"loss\": ");
    losses.push_back(line.substr(begin, line.find(',', begin) - begin));
  }
  return losses;
}

struct Result {
  std::vector<std::string> losses;
  std::string model;
  bool operator==(const Result& other) const { return losses == other.losses && model == other.model; }
};

Result ResultOf(const LocalCluster& cluster, const std::string& name) {
  const std::string folder = absl::StrCat(cluster.output_root(), "/", name);
  return {Losses(folder), ReadFile(folder + "/model.safetensors")};
}

TEST(TrainingChaosTest, TheResultsAreThoseOfAnUndisturbedRun) {
  const char* text = getenv("ADJOIN_CHAOS_KILLS");
  int kills = 0;
  ASSERT_TRUE(text != nullptr && absl::SimpleAtoi(text, &kills)) << "ADJOIN_CHAOS_KILLS has to be a number";
  LocalClusterOptions options;
  options.coordinator_flags = {"--heartbeat-seconds",      "0.2", "--suspect-seconds",  "0.7",
                               "--worker-timeout-seconds", "4",   "--reattach-seconds", "6",
                               "--lease-seconds",          "8"};
  auto started = LocalCluster::Start(kNodes, kSlots, options);
  ASSERT_TRUE(started.ok()) << started.status();
  LocalCluster& cluster = **started;
  const absl::StatusOr<std::string> calm = cluster.Submit(Job("calm"));
  ASSERT_TRUE(calm.ok()) << calm.status();
  const absl::StatusOr<JobSummary> end = cluster.WaitFor(*calm, Within(240));
  ASSERT_TRUE(end.ok()) << end.status();
  ASSERT_EQ(end->state(), SUCCEEDED) << end->reason();
  const Result expected = ResultOf(cluster, "calm");
  ASSERT_EQ(expected.losses.size(), 200u);

  RandomKills chaos(cluster, kNodes, "adjoin-rank", TestSeed());
  struct Open {
    std::string job, name;
  };
  std::vector<Open> open;
  int submitted = 0;
  while (chaos.done() < kills || !open.empty()) {
    while (chaos.done() < kills && open.size() < kAtOnce) {
      const std::string name = absl::StrCat("disturbed-", submitted++);
      const absl::StatusOr<std::string> job = cluster.Submit(Job(name), /*idempotency_key=*/name);
      ASSERT_TRUE(job.ok()) << job.status();
      open.push_back({*job, name});
    }
    const bool over = chaos.done() >= kills;
    if (!over) {
      const absl::Status next = chaos.Next();
      ASSERT_TRUE(next.ok()) << next;
    }
    std::vector<Open> still;
    for (const Open& each : open) {
      const absl::StatusOr<JobSummary> end = cluster.WaitFor(each.job, Within(over ? 300 : 0.05));
      if (!end.ok() && !over) {
        still.push_back(each);
        continue;
      }
      ASSERT_TRUE(end.ok()) << each.job << ": " << end.status();
      ASSERT_EQ(end->state(), SUCCEEDED) << each.job << ": " << end->reason();
      EXPECT_TRUE(ResultOf(cluster, each.name) == expected) << each.job << " has other losses or weights";
    }
    open = still;
  }
  std::cerr << chaos.done() << " kills and stops, " << submitted << " jobs" << std::endl;
  EXPECT_EQ(cluster.Stop(), absl::OkStatus());
  EXPECT_THAT(ProcessesLeft(cluster.folder(), Within(30)), IsEmpty());
}

}  // namespace
}  // namespace adjoin
