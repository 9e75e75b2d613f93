// A rank that gets no more memory: what the user reads. A job that limits itself to less than its plan predicts is
// refused, so here the daemon and all that it starts are limited.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/deadline.h"
#include "tests/harness/local_cluster.h"

namespace adjoin {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

// "up" returns 2 GiB on its rank, rank 1.
constexpr char kJob[] = R"job(name: "large" kind: TRAIN ranks: 2 seed: 1
layout { name: "one" partition: [1, 1, 1, 1] rank: [1] }
layer { name: "conv" input: "x" x: "one" conv { out_channels: 2 window { kernel: 3 pad_lo: 1 } } }
layer { name: "up" upsample { mode: "nearest" size: [16384, 16384] } }
layer { name: "global" pool { mode: "avg" adaptive_size: 1 } }
layer { name: "flat" flatten { arg: 1 } }
layer { name: "fc" linear { out_features: 2 } }
loss { kind: "cross_entropy" input: "fc" target: "y" }
dataset { name: "train"
  field { name: "x" synthetic { kind: "normal" samples: 4 } shape: [1, 8, 8] }
  field { name: "y" synthetic { kind: "index" samples: 4 high: 2 } dtype: "int64" } }
train { dataset: "train" batch: 1 steps: 2 optimizer { sgd { lr: 0.1 } } }
)job";
constexpr char kLimit[] = "resources { memory_bytes: 67108864 }\n";

TEST(OutOfMemoryTest, TheJobsReasonTellsLimitLayerAndWhatHelps) {
  LocalClusterOptions options;
  options.worker[0].prefix = {"/usr/bin/prlimit", "--data=1140850688"};
  auto cluster = LocalCluster::Start(1, 2, std::move(options));
  ASSERT_TRUE(cluster.ok()) << cluster.status();
  const absl::StatusOr<std::string> job = (*cluster)->Submit(kJob);
  ASSERT_TRUE(job.ok()) << job.status();
  const absl::StatusOr<JobSummary> end = (*cluster)->WaitFor(*job, Deadline::After(absl::Seconds(120)));
  ASSERT_TRUE(end.ok()) << end.status();
  EXPECT_EQ(end->state(), FAILED);
  EXPECT_THAT(
      end->reason(),
      AllOf(HasSubstr("rank 1 on worker-0 failed: out of memory: layer \"up\" asked for 2.00 GiB more than there "
                      "is; limit: 1.06 GiB; in use: "),
            ContainsRegex("in use: [0-9.]+ [MG]iB; the largest outputs of layers on this rank: \"up\" 2.00 GiB, "),
            HasSubstr("a larger resources.memory_bytes"), Not(HasSubstr("enforce fail"))));
}

TEST(OutOfMemoryTest, AJobThatLimitsItselfToTooLittleIsRefused) {
  auto cluster = LocalCluster::Start(1, 2);
  ASSERT_TRUE(cluster.ok()) << cluster.status();
  const absl::Status status = (*cluster)->Submit(absl::StrCat(kJob, kLimit)).status();
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("resources.memory_bytes allows 64.0 MiB for tensors, and rank 1 needs about "),
                    HasSubstr("raise the limit to that, or use more ranks, micro-batches or recompute")));
}

}  // namespace
}  // namespace adjoin
