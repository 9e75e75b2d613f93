// The predicted memory of a training step is what LibTorch's allocator counts, over networks, cuts and ranks.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <iostream>
#include <map>
#include <string>
#include <vector>

#include <ATen/Parallel.h>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/status_macros.h"
#include "planner/memory/step_memory.h"
#include "primitives/libtorch_versions.h"
#include "primitives/transport/transport.h"
#include "primitives/transport/transport_ranks.h"
#include "proto/plan.pb.h"
#include "tests/vs_serial/partitioned_run.h"
#include "tests/vs_serial/step_networks.h"
#include "tests/vs_serial/step_peak.h"
#include "tests/vs_serial/wide_vectors.h"

namespace adjoin {
namespace {

// The most that one of the ranks needs.
absl::StatusOr<int64_t> Counted(const Plan& plan, const Tensors& data) {
  const int ranks = static_cast<int>(plan.spec().ranks());
  std::vector<int64_t> counted(ranks);
  const absl::Status run = RunRanks(ranks, TransportKind::kInMemory, 1, [&](Transport& transport) {
    ADJOIN_ASSIGN_OR_RETURN(counted[transport.rank()], StepPeak(plan, data, transport));
    return absl::OkStatus();
  });
  ADJOIN_RETURN_IF_ERROR(run);
  return *std::max_element(counted.begin(), counted.end());
}

absl::StatusOr<int64_t> Predicted(const Plan& plan) {
  int64_t predicted = 0;
  for (int rank = 0; rank < static_cast<int>(plan.spec().ranks()); ++rank) {
    ADJOIN_ASSIGN_OR_RETURN(const RankMemory found, PredictStepMemory(plan, plan.program(0), rank));
    predicted = std::max(predicted, found.bytes);
  }
  return predicted;
}

// Weights that travel, each while the layer before computes, and their gradients: they are most of the memory. They
// travel in float32, whatever they are computed with.
StepNetwork Shards(const std::string& precision) {
  std::string layers;
  for (int i = 0; i < 5; ++i) {
    absl::StrAppend(&layers, "layer { name: \"l", i, "\" ", i == 0 ? "input: \"x\" x: \"grid\" " : "",
                    "home: SHARDED linear { bias: false out_features: ", i < 4 ? 512 : 8, " } }\n");
  }
  const double off = precision == "bfloat16" ? 0.2 : 0.02;
  return {.name = absl::StrCat("shards ", precision),
          .layers = layers,
          .last = "l4",
          .shape = {512},
          .partitions = {"[1, 1]", "[2, 1]", "[4, 1]"},
          .loss = "l1",
          .target = {8},
          .batch = 8,
          .precision = precision,
          .below = off,
          .above = std::max(off, 0.05)};
}

TEST(StepMemoryTest, IsWhatTheAllocatorCounts) {
  at::set_num_threads(1);
  // The prediction has channels in blocks of 16; blocks of 8 are half of it where a network has few channels.
  const double more = HasWideVectors() ? 0 : 0.45;
  // What layers/conv/convolution_kernel.h pads is not predicted: planners do not know of which release workers are.
  const double padded = OneDnnLeavesBlocksOpen() ? 0.3 : 0;
  std::vector<StepNetwork> networks = StepNetworks();
  for (const char* precision : {"float32", "bfloat16"}) networks.push_back(Shards(precision));
  for (const StepNetwork& c : networks) {
    // LibTorch asks the processor, not oneDNN, whether oneDNN computes in bfloat16.
    if (!HasWideVectors() && ProcessorHasWideVectors() && absl::StrContains(c.name, "bfloat16")) continue;
    for (const std::string& partition : c.partitions) {
      SCOPED_TRACE(absl::StrCat(c.name, " ", partition));
      const auto plan = PlanOf(JobOf(c, partition), {{"data", c.batch}});
      ASSERT_TRUE(plan.ok()) << plan.status();
      const auto counted = Counted(*plan, DataOf(*plan, c));
      ASSERT_TRUE(counted.ok()) << counted.status();
      const auto predicted = Predicted(*plan);
      ASSERT_TRUE(predicted.ok()) << predicted.status();
      const double ratio = static_cast<double>(*predicted) / static_cast<double>(*counted);
      std::cout << absl::StrCat(c.name, " ", partition, ": counted ", *counted, ", predicted ", *predicted, ", ", ratio,
                                "\n");
      EXPECT_GE(ratio, 1 - c.below - std::max(more, padded));
      EXPECT_LE(ratio, 1 + c.above + more);
    }
  }
}

// A convolution of stride 2 over parts that are just large enough to stay where they are; without padding at the end,
// it copies them with their halo.
TEST(StepMemoryTest, PartsThatStayWhereTheyAreTakeLessThanCopiesOfThem) {
  at::set_num_threads(1);
  const StepNetwork c = {.name = "strided edges",
                         .layers = R"(
layer { name: "first" input: "x" x: "grid" conv { out_channels: 16 window { kernel: 3 pad_lo: 1 } } }
layer { name: "relu" activation { fn: "relu" } }
layer { name: "strided" conv { out_channels: 16 window { kernel: 3 stride: 2 pad_lo: 1 } } }
layer { name: "last" conv { out_channels: 1 window { kernel: 1 } } }
)",
                         .last = "last",
                         .shape = {3, 256, 256},
                         .partitions = {"[1, 1, 2, 1]"},
                         .loss = "mse",
                         .target = {1, 128, 128}};
  const std::string even = JobOf(c, c.partitions[0]);
  const std::string one_sided = absl::StrReplaceAll(even, {{"stride: 2 pad_lo: 1", "stride: 2 pad_lo: 1 pad_hi: 0"}});
  std::map<std::string, int64_t> counted;  // by the role that brings the halo
  for (const std::string& job : {even, one_sided}) {
    const auto plan = PlanOf(job, {{"data", c.batch}});
    ASSERT_TRUE(plan.ok()) << plan.status();
    const LayerPlan& strided = plan->program(0).layer(2);
    ASSERT_GT(strided.op_size(), 0);
    const auto most = Counted(*plan, DataOf(*plan, c));
    ASSERT_TRUE(most.ok()) << most.status();
    const auto predicted = Predicted(*plan);
    ASSERT_TRUE(predicted.ok()) << predicted.status();
    const double ratio = static_cast<double>(*predicted) / static_cast<double>(*most);
    std::cout << absl::StrCat(strided.op(0).role(), ": counted ", *most, ", predicted ", *predicted, ", ", ratio, "\n");
    const double more = HasWideVectors() ? 0 : 0.45;
    EXPECT_GE(ratio, 1 - c.below - more) << strided.op(0).role();
    EXPECT_LE(ratio, 1 + c.above + more) << strided.op(0).role();
    counted[strided.op(0).role()] = *most;
  }
  ASSERT_EQ(counted.count("edges2"), 1u);
  ASSERT_EQ(counted.count("x"), 1u);
  EXPECT_LT(counted["edges2"], counted["x"]);
}

}  // namespace
}  // namespace adjoin
