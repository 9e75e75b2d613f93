// Jobs are admitted and placed by the memory that their plans tell, through a real coordinator and real daemons; and
// what their ranks then take is told beside it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/deadline.h"
#include "proto/coordinator.pb.h"
#include "tests/harness/local_cluster.h"

namespace adjoin {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr uint64_t kMiB = uint64_t{1} << 20;

// A network of convolutions, which take some 5 MiB each for 100 channels.
std::string Job(const std::string& name, int ranks, int channels, const std::string& more = "") {
  return absl::StrCat("name: \"", name, "\" kind: TRAIN ranks: ", ranks, R"( seed: 1
layout { name: "rows" partition: [1, 1, )",
                      ranks, R"(, 1] }
layer { name: "conv1" input: "x" x: "rows" conv { out_channels: )",
                      channels, R"( window { kernel: 3 pad_lo: 1 } } }
layer { name: "relu1" activation { fn: "relu" } }
layer { name: "pool" pool { mode: "avg" adaptive_size: 1 } }
layer { name: "flat" flatten { arg: 1 } }
layer { name: "fc" linear { out_features: 2 } }
loss { kind: "cross_entropy" input: "fc" target: "y" }
dataset { name: "train"
  field { name: "x" synthetic { kind: "normal" samples: 8 } shape: [1, 64, 64] }
  field { name: "y" synthetic { kind: "index" samples: 8 high: 2 } dtype: "int64" } }
train { dataset: "train" batch: 4 steps: 6 optimizer { sgd { lr: 0.1 } } }
)",
                      more);
}

class MemoryPlacementTest : public ::testing::Test {
 protected:
  // Room for one rank on the first node, and for several on the second.
  void SetUp() override {
    LocalClusterOptions options;
    options.memory_bytes = {{0, 350 * kMiB}, {1, 1400 * kMiB}};
    auto cluster = LocalCluster::Start(/*nodes=*/2, /*slots_per_node=*/8, std::move(options));
    ASSERT_TRUE(cluster.ok()) << cluster.status();
    cluster_ = *std::move(cluster);
  }
  std::unique_ptr<LocalCluster> cluster_;
};

TEST_F(MemoryPlacementTest, AJobThatFitsOnNoNodeIsRefusedWithTheSum) {
  const absl::StatusOr<std::string> job = cluster_->Submit(Job("large", 2, 16000));
  EXPECT_THAT(std::string(job.status().message()),
              AllOf(HasSubstr("a rank needs about "), HasSubstr("(parameters "), HasSubstr("the process itself "),
                    HasSubstr("the largest node, worker-1, offers 1.37 GiB for ranks; what helps: more ranks")));
}

TEST_F(MemoryPlacementTest, AJobThatLimitsItselfToTooLittleIsRefusedWithBothNumbers) {
  const absl::StatusOr<std::string> job =
      cluster_->Submit(Job("limited", 2, 1280, "resources { memory_bytes: 67108864 }"));
  EXPECT_THAT(std::string(job.status().message()),
              AllOf(HasSubstr("resources.memory_bytes allows 64.0 MiB for tensors, and rank "),
                    HasSubstr(" needs about "), HasSubstr("raise the limit")));
}

TEST_F(MemoryPlacementTest, RanksGoWhereTheirMemoryIsAndItIsToldBesideWhatTheyTook) {
  const absl::StatusOr<std::string> job = cluster_->Submit(Job("placed", 4, 32));
  ASSERT_TRUE(job.ok()) << job.status();
  const absl::StatusOr<JobSummary> end = cluster_->WaitFor(*job, Deadline::After(absl::Seconds(120)));
  ASSERT_TRUE(end.ok()) << end.status();
  EXPECT_EQ(end->state(), SUCCEEDED) << end->reason();
  const absl::StatusOr<DescribeJobResponse> described = cluster_->Describe(*job);
  ASSERT_TRUE(described.ok()) << described.status();
  std::map<std::string, int> ranks;
  for (const RankStatus& rank : described->rank()) {
    ++ranks[rank.worker()];
    EXPECT_GT(rank.progress().peak_resident_bytes(), 0);
    EXPECT_GT(rank.progress().step_seconds(), 0);
    EXPECT_GT(rank.progress().peak_tensor_bytes(), 0);
    EXPECT_LT(rank.progress().peak_tensor_bytes(), rank.progress().peak_resident_bytes());
  }
  EXPECT_LE(ranks["worker-0"], 1) << "one rank fits there, or none is needed";
  EXPECT_GT(described->predicted().tensor_bytes(), 0);
  const auto predicted = static_cast<double>(described->predicted().resident_bytes());
  EXPECT_GT(predicted, described->predicted().tensor_bytes());
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  int64_t most = 0;
  for (const RankStatus& rank : described->rank()) most = std::max(most, rank.progress().peak_resident_bytes());
  EXPECT_NEAR(static_cast<double>(most), predicted, 0.2 * predicted);
#endif
}

}  // namespace
}  // namespace adjoin
