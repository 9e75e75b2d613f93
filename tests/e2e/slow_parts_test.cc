// A slow link and a slow file, planted among four real ranks on four nodes: each is named as what it is.
//
// What else the machine does makes other parts slow, too: what is planted is much slower than that.
//
// The link needs root, network namespaces, tc and iptables; its test is skipped elsewhere.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <utility>

#include <nlohmann/json.hpp>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "base/deadline.h"
#include "proto/coordinator.pb.h"
#include "tests/harness/child_process.h"
#include "tests/harness/local_cluster.h"
#include "tests/harness/node_network.h"

namespace adjoin {
namespace {

using ::testing::HasSubstr;

using Json = nlohmann::json;

constexpr int kNodes = 4;
constexpr uint64_t kSteps = 40;  // that are judged; every second one is measured

// Ranks with a quarter of the rows each, which exchange halos. `field`: the source of the images and their shape.
std::string Job(const std::string& field, int samples, int batch) {
  return absl::StrCat(R"(name: "slow" kind: TRAIN ranks: 4 seed: 1
layout { name: "rows" partition: [1, 1, 4, 1] }
layer { name: "conv1" input: "x" x: "rows" conv { out_channels: 8 window { kernel: 3 pad_lo: 1 } } }
layer { name: "conv2" conv { out_channels: 8 window { kernel: 3 pad_lo: 1 } } }
layer { name: "pool" pool { mode: "avg" adaptive_size: 1 } }
layer { name: "flat" flatten { arg: 1 } }
layer { name: "fc" linear { out_features: 2 } }
loss { kind: "cross_entropy" input: "fc" target: "y" }
dataset { name: "train" shuffle: true
  field { name: "x" )",
                      field, R"( }
  field { name: "y" synthetic { kind: "index" samples: )",
                      samples, R"( high: 2 } dtype: "int64" } }
train { dataset: "train" batch: )",
                      batch, " steps: 1000000 measure_layers_every: 2 optimizer { sgd { lr: 0.01 } } }\n");
}

class SlowPartsTest : public ::testing::Test {
 protected:
  void Start(const LocalClusterOptions& options) {
    auto cluster = LocalCluster::Start(kNodes, /*slots_per_node=*/1, options);
    ASSERT_TRUE(cluster.ok()) << cluster.status();
    cluster_ = *std::move(cluster);
  }
  bool RunsUntilStep(uint64_t step) {
    const auto found = cluster_->WaitUntil(
        job_, [&](const JobSummary& summary) { return summary.progress().step() >= step; },
        Deadline::After(absl::Seconds(180)));
    EXPECT_TRUE(found.ok()) << found.status();
    return found.ok();
  }
  void Submit(const std::string& spec) {
    const absl::StatusOr<std::string> job = cluster_->Submit(spec);
    ASSERT_TRUE(job.ok()) << job.status();
    job_ = *job;
    ASSERT_TRUE(RunsUntilStep(2));
    const absl::StatusOr<DescribeJobResponse> described = cluster_->Describe(job_);
    ASSERT_TRUE(described.ok()) << described.status();
    ASSERT_EQ(described->rank_size(), kNodes);
    for (const RankStatus& rank : described->rank()) {
      absl::string_view worker = rank.worker();
      int node = -1;
      ASSERT_TRUE(absl::ConsumePrefix(&worker, "worker-") && absl::SimpleAtoi(worker, &node)) << rank.worker();
      node_of_[static_cast<int>(rank.rank())] = node;
    }
  }

  // Lets the job run some more steps. Returns what each part has cost of the measured ones, in seconds: "link 1 to 2".
  std::map<std::string, double> CostsOfNextSteps() {
    const absl::StatusOr<DescribeJobResponse> described = cluster_->Describe(job_);
    EXPECT_TRUE(described.ok()) << described.status();
    if (!described.ok()) return {};
    // What is told of a running job is a little old.
    if (!RunsUntilStep(described->job().progress().step() + 2)) return {};
    const uint64_t begin = described->job().progress().step() + 10, end = begin + kSteps;
    if (!RunsUntilStep(end)) return {};
    shown_ = cluster_->Cli({"describe", job_}).out;
    const LocalCluster::CliResult lines = cluster_->Cli({"metrics", job_, "--type", "slow"});
    EXPECT_EQ(lines.exit_code, 0) << lines.err;
    std::map<std::string, double> costs;
    uint64_t measured = 0;
    std::istringstream text(lines.out);
    for (std::string line; std::getline(text, line);) {
      const Json parsed = Json::parse(line);
      const uint64_t step = parsed["step"];
      if (step <= begin || step > end) continue;
      ++measured;
      for (size_t i = 0; i < parsed["kind"].size(); ++i) {
        std::string part = absl::StrCat(parsed["kind"][i].get<std::string>(), " ", parsed["rank"][i].get<int>());
        if (parsed["kind"][i] == "link") absl::StrAppend(&part, " to ", parsed["peer"][i].get<int>());
        costs[part] += parsed["cost_seconds"][i].get<double>();
      }
    }
    EXPECT_EQ(measured, kSteps / 2);
    for (const auto& [part, cost] : costs) std::cerr << part << ": " << cost << " s\n";
    return costs;
  }
  // The machine does other work, too, which makes other parts slow now and then.
  static void ExpectCostliest(const std::string& expected, std::map<std::string, double> costs) {
    const double most = costs[expected];
    EXPECT_GT(most, 0);
    for (const auto& [part, cost] : costs) {
      if (part == expected) continue;
      EXPECT_GT(most, cost) << expected << " beside " << part;
    }
  }
  void Cancel() { EXPECT_EQ(cluster_->Cli({"cancel", job_}).exit_code, 0); }

  std::unique_ptr<LocalCluster> cluster_;
  std::string job_, shown_;
  std::map<int, int> node_of_;  // by rank
};

TEST_F(SlowPartsTest, TheSlowLinkIsNamed) {
  NodeNetwork network;
  if (!network.Make(kNodes)) GTEST_SKIP() << NodeNetwork::kNeeds;
  const absl::StatusOr<LocalClusterOptions> options = network.ClusterOptions(::testing::TempDir() + "/certs");
  ASSERT_TRUE(options.ok()) << options.status();
  ASSERT_NO_FATAL_FAILURE(Start(*options));
  ASSERT_NO_FATAL_FAILURE(Submit(Job("synthetic { kind: \"normal\" samples: 64 } shape: [4, 64, 64]", 64, 8)));
  if (!network.LimitRate(node_of_[1], node_of_[2], /*megabits_per_second=*/2)) {
    GTEST_SKIP() << "tc and iptables do not limit rates here";
  }
  ExpectCostliest("link 1 to 2", CostsOfNextSteps());
  EXPECT_THAT(shown_, HasSubstr("rank 1 to rank 2"));
  Cancel();
}

// The same numbers in two files: in one each sample lies by itself, in the other it is one of two thousand that have to
// be inflated together, which a batch needs ten times.
TEST_F(SlowPartsTest, TheSlowFileIsNamed) {
  const std::string fast = ::testing::TempDir() + "/fast", slow = ::testing::TempDir() + "/slow";
  const std::string program =
      absl::StrCat(R"(
import h5py, numpy
for folder, storage in ((")",
                   fast, R"(", {}), (")", slow, R"(", {"chunks": (2048, 4, 32, 32), "compression": "gzip"})):
    with h5py.File(folder + "/set.h5", "w") as file:
        cells = (numpy.arange(2048 * 4096, dtype="int64") % 251).astype("uint8").reshape(2048, 4, 32, 32)
        images = file.create_dataset("images", (49152, 4, 32, 32), "uint8", **storage)
        for first in range(0, 49152, 2048):
            images[first:first + 2048] = cells
)");
  for (const std::string& folder : {fast, slow}) std::filesystem::create_directories(folder);
  auto python = ChildProgram::Start({"/usr/bin/python3", "-c", program}, {}, ::testing::TempDir() + "/python");
  ASSERT_TRUE(python.ok()) << python.status();
  const absl::StatusOr<int> code = (*python)->Wait(Deadline::After(absl::Seconds(120)));
  ASSERT_TRUE(code.ok() && *code == 0) << code.status() << (*python)->Errors();

  constexpr int kSlowNode = 2;
  LocalClusterOptions options;
  for (int node = 0; node < kNodes; ++node) options.data_root[node] = node == kSlowNode ? slow : fast;
  ASSERT_NO_FATAL_FAILURE(Start(options));
  ASSERT_NO_FATAL_FAILURE(Submit(Job("hdf5 { path: \"set.h5\" } shape: [4, 32, 32] scale: 0.004", 49152, 16)));
  int slow_rank = -1;
  for (const auto& [rank, node] : node_of_) slow_rank = node == kSlowNode ? rank : slow_rank;
  ExpectCostliest(absl::StrCat("data ", slow_rank), CostsOfNextSteps());
  Cancel();  // in the last step alone, its samples may have been inflated already
}

}  // namespace
}  // namespace adjoin
