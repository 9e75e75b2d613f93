// What a rank's memory holds for attention over a cut sequence grows with the sequence over the ranks, not with its
// square.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/randn.h>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "layers/builtin/builtin_layers.h"
#include "layers/network/network.h"
#include "layers/network/parameters.h"
#include "layers/registry.h"
#include "primitives/comm/communicator.h"
#include "primitives/comm/local_memory.h"
#include "primitives/status_exception.h"
#include "primitives/tape.h"
#include "primitives/transport/transport.h"
#include "primitives/transport/transport_ranks.h"
#include "proto/plan.pb.h"
#include "tests/vs_serial/partitioned_run.h"
#include "tests/vs_serial/tensor_peak.h"

namespace adjoin {
namespace {

struct Peaks {
  int64_t forward = 0;
  int64_t both = 0;  // forward and backward
};

absl::Status RunRank(const Plan& plan, const Tensors& whole, Transport& transport, Peaks& peaks) {
  HostMemory memory;
  Communicator communicator(&transport, &memory, {});
  ADJOIN_ASSIGN_OR_RETURN(Parameters parameters, Parameters::Create(plan, transport.rank()));
  parameters.Initialise(1);
  ADJOIN_ASSIGN_OR_RETURN(auto network, Network::Create(plan, "train", &communicator, &parameters, BuiltinLayers()));
  ADJOIN_ASSIGN_OR_RETURN(const Tensors fields, LocalFields(plan.program(0), whole, transport.rank()));
  const auto peak = std::make_shared<TensorPeak>();
  const c10::DebugInfoGuard guard(c10::DebugInfoKind::PROFILER_STATE, peak);
  Tape tape;
  ADJOIN_ASSIGN_OR_RETURN(const Network::Result result, network->Forward(fields, tape));
  peaks.forward = peak->bytes();
  try {
    tape.Backward(result.loss);
  } catch (...) {
    return StatusFromCurrentException();
  }
  peaks.both = peak->bytes();
  return absl::OkStatus();
}

// The largest of all ranks.
absl::StatusOr<Peaks> PeaksOf(int64_t length, int ranks) {
  const std::string text =
      absl::StrCat("name: \"long\" kind: TRAIN ranks: ", ranks, " layout { name: \"x\" partition: [1, ", ranks,
                   ", 1] }\n", "layer { name: \"y\" input: \"x\" x: \"x\" attention { heads: 2 } }\n",
                   "loss { kind: \"mse\" input: \"y\" target: \"t\" }\n",
                   "dataset { name: \"data\" field { name: \"x\" idx { path: \"x\" } shape: [", length, ", 16] }",
                   " field { name: \"t\" idx { path: \"t\" } shape: [", length, ", 16] } }\n",
                   "train { dataset: \"data\" batch: 1 steps: 1 optimizer { sgd { lr: 0.1 } } }\n");
  ADJOIN_ASSIGN_OR_RETURN(const Plan plan, PlanOf(text, {{"data", 1}}));
  const Tensors whole = {{"x", at::randn({1, length, 16})}, {"t", at::randn({1, length, 16})}};
  std::vector<Peaks> of_rank(ranks);
  ADJOIN_RETURN_IF_ERROR(RunRanks(ranks, TransportKind::kInMemory, 1, [&](Transport& transport) {
    return RunRank(plan, whole, transport, of_rank[transport.rank()]);
  }));
  Peaks largest;
  for (const Peaks& peaks : of_rank) {
    largest.forward = std::max(largest.forward, peaks.forward);
    largest.both = std::max(largest.both, peaks.both);
  }
  return largest;
}

TEST(AttentionMemoryTest, GrowsWithTheSequence) {
  constexpr int kRanks = 4;
  at::set_num_threads(1);
  std::vector<Peaks> peaks;
  for (const int64_t length : {1024, 2048, 4096, 8192, 16384}) {
    const auto found = PeaksOf(length, kRanks);
    ASSERT_TRUE(found.ok()) << found.status();
    peaks.push_back(*found);
    std::cout << "length " << length << ": " << found->forward << " bytes forward, " << found->both
              << " with backward\n";
    // All scores of one rank's rows would be 4 bytes for each of 2 heads.
    if (length >= 4096) {
      EXPECT_LT(found->both, 2 * 4 * length / kRanks * length / 4);
    }
  }
  for (size_t i = 1; i < peaks.size(); ++i) {
    // A tile is as large for every length: growth is less than by 2.
    EXPECT_LT(peaks[i].forward, 2.05 * peaks[i - 1].forward);
    EXPECT_LT(peaks[i].both, 2.05 * peaks[i - 1].both);
  }
}

TEST(AttentionMemoryTest, ShrinksWithTheRanks) {
  at::set_num_threads(1);
  std::vector<Peaks> peaks;
  for (const int ranks : {2, 4, 8}) {
    const auto found = PeaksOf(8192, ranks);
    ASSERT_TRUE(found.ok()) << found.status();
    peaks.push_back(*found);
    std::cout << ranks << " ranks: " << found->forward << " bytes forward, " << found->both << " with backward\n";
  }
  for (size_t i = 1; i < peaks.size(); ++i) {
    // Besides a tile, which is as large on every rank, all is one part's.
    EXPECT_LT(peaks[i].forward, 0.7 * peaks[i - 1].forward);
    EXPECT_LT(peaks[i].both, 0.7 * peaks[i - 1].both);
  }
}

}  // namespace
}  // namespace adjoin
