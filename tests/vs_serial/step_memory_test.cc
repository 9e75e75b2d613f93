// The predicted memory of a training step is what LibTorch's allocator counts, over networks, cuts and ranks.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <iostream>
#include <string>
#include <vector>

#include <ATen/Parallel.h>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
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

TEST(StepMemoryTest, IsWhatTheAllocatorCounts) {
  at::set_num_threads(1);
  // The prediction has channels in blocks of 16; blocks of 8 are half of it where a network has few channels.
  const double more = HasWideVectors() ? 0 : 0.45;
  // What layers/conv/convolution_kernel.h pads is not predicted: planners do not know of which release workers are.
  const double padded = OneDnnLeavesBlocksOpen() ? 0.3 : 0;
  for (const StepNetwork& c : StepNetworks()) {
    // LibTorch asks the processor, not oneDNN, whether oneDNN computes in bfloat16.
    if (!HasWideVectors() && ProcessorHasWideVectors() && absl::StrContains(c.name, "bfloat16")) continue;
    for (const std::string& partition : c.partitions) {
      SCOPED_TRACE(absl::StrCat(c.name, " ", partition));
      const auto plan = PlanOf(JobOf(c, partition), {{"data", c.batch}});
      ASSERT_TRUE(plan.ok()) << plan.status();
      const int ranks = RanksOf(partition);
      const Tensors data = DataOf(*plan, c);
      std::vector<int64_t> counted(ranks);
      const absl::Status run = RunRanks(ranks, TransportKind::kInMemory, 1, [&](Transport& transport) {
        ADJOIN_ASSIGN_OR_RETURN(counted[transport.rank()], StepPeak(*plan, data, transport));
        return absl::OkStatus();
      });
      ASSERT_TRUE(run.ok()) << run;
      int64_t predicted = 0;
      for (int rank = 0; rank < ranks; ++rank) {
        const auto found = PredictStepMemory(*plan, plan->program(0), rank);
        ASSERT_TRUE(found.ok()) << found.status();
        predicted = std::max(predicted, found->bytes);
      }
      const int64_t most = *std::max_element(counted.begin(), counted.end());
      const double ratio = static_cast<double>(predicted) / static_cast<double>(most);
      std::cout << absl::StrCat(c.name, " ", partition, ": counted ", most, ", predicted ", predicted, ", ", ratio,
                                "\n");
      EXPECT_GE(ratio, 1 - c.below - std::max(more, padded));
      EXPECT_LE(ratio, 1 + c.above + more);
    }
  }
}

}  // namespace
}  // namespace adjoin
