// Layers that are computed again in the backward pass: bit for bit the gradients, losses and running statistics of a
// pass that keeps everything, on 1, 2 and 4 ranks, in less memory.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/status_macros.h"
#include "layers/builtin/builtin_layers.h"
#include "layers/network/gradient_sync.h"
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

constexpr int kSteps = 2;

// LAYOUT, RANKS and the marks MARK, MARK2 are replaced.
constexpr char kUNet[] = R"(name: "unet" kind: TRAIN ranks: RANKS seed: 1
layout { name: "cut" LAYOUT }
layer { name: "a1" input: "image" x: "cut" MARK conv { out_channels: 8 bias: false window { kernel: 3 pad_lo: 1 } } }
layer { name: "n1" MARK norm { kind: "batch" } }
layer { name: "r1" MARK activation { fn: "relu" } }
layer { name: "a2" MARK conv { out_channels: 8 window { kernel: 3 pad_lo: 1 } } }
layer { name: "r2" MARK activation { fn: "gelu" } }
layer { name: "p1" MARK2 pool { mode: "max" window { kernel: 2 } } }
layer { name: "a3" MARK conv { out_channels: 16 window { kernel: 3 pad_lo: 1 } } }
layer { name: "n3" MARK norm { kind: "batch" } }
layer { name: "r3" MARK activation { fn: "relu" } }
layer { name: "up" MARK2 conv { out_channels: 8 transposed: true window { kernel: 2 stride: 2 } } }
layer { name: "skip" input: ["r2", "up"] MARK concat { arg: 1 } }
layer { name: "a4" MARK conv { out_channels: 8 window { kernel: 3 pad_lo: 1 } } }
layer { name: "n4" MARK norm { kind: "batch" } }
layer { name: "r4" MARK activation { fn: "relu" } }
layer { name: "d4" MARK dropout { p: 0.25 } }
layer { name: "head" MARK2 conv { out_channels: 3 window { kernel: 1 } } }
loss { kind: "cross_entropy" input: "head" target: "label" }
dataset { name: "data" field { name: "image" idx { path: "i" } shape: [2, 24, 20] }
  field { name: "label" idx { path: "l" } dtype: "int64" shape: [24, 20] } }
train { dataset: "data" batch: 4 steps: 2 optimizer { sgd { lr: 0.1 } } }
precision { compute: "float64" }
)";

// Layers that move nothing and hand on views; a frozen layer; a value that several layers read.
constexpr char kMixed[] = R"(name: "mixed" kind: TRAIN ranks: RANKS seed: 2
layout { name: "cut" partition: [RANKS, 1, 1, 1] }
layer { name: "a1" input: "image" x: "cut" MARK frozen: true conv { out_channels: 4 window { kernel: 3 } } }
layer { name: "t1" MARK activation { fn: "tanh" } }
layer { name: "s1" MARK repartition {} y: "cut" }
layer { name: "a2" MARK home: SHARDED conv { out_channels: 4 window { kernel: 3 pad_lo: 1 } } }
layer { name: "sum" input: ["a2", "s1", "t1"] MARK add {} }
layer { name: "soft" input: "sum" MARK softmax { dim: 1 } }
layer { name: "noise" MARK noise { std: 0.1 multiplicative: true } }
layer { name: "flat" MARK flatten {} }
layer { name: "fc" MARK home: OWNER linear { out_features: 5 } }
loss { kind: "cross_entropy" input: "fc" target: "label" }
dataset { name: "data" field { name: "image" idx { path: "i" } shape: [2, 24, 20] }
  field { name: "label" idx { path: "l" } dtype: "int64" } }
train { dataset: "data" batch: 4 steps: 2 optimizer { sgd { lr: 0.1 } } }
precision { compute: "float64" }
)";

// Layers that share weights: within one piece that is computed again, and one of them outside of it.
constexpr char kTwins[] = R"(name: "twins" kind: TRAIN ranks: RANKS seed: 2
layout { name: "cut" partition: [RANKS, 1, 1, 1] }
layout { name: "rows" partition: [1, 1, RANKS, 1] }
layer { name: "a1" input: "image" x: "cut" MARK weights_of: "a2"
        conv { out_channels: 2 window { kernel: 3 pad_lo: 1 } } }
layer { name: "t1" MARK activation { fn: "tanh" } }
layer { name: "a2" x: "rows" MARK home: SHARDED conv { out_channels: 2 window { kernel: 3 pad_lo: 1 } } }
layer { name: "p1" MARK2 activation { fn: "prelu" } }
layer { name: "p2" MARK weights_of: "p1" activation { fn: "prelu" } }
layer { name: "flat" MARK flatten {} }
layer { name: "fc" MARK home: OWNER linear { out_features: 5 } }
loss { kind: "cross_entropy" input: "fc" target: "label" }
dataset { name: "data" field { name: "image" idx { path: "i" } shape: [2, 24, 20] }
  field { name: "label" idx { path: "l" } dtype: "int64" } }
train { dataset: "data" batch: 4 steps: 2 optimizer { sgd { lr: 0.1 } } }
precision { compute: "float64" }
)";

struct Outcome {
  std::vector<double> losses;       // this rank's shares
  std::vector<at::Tensor> tensors;  // gradients and buffers, of each step
  int64_t peak_bytes = 0;           // of this thread's tensors that were made since the first step began
  int64_t left_bytes = 0;           // of what the last step made, after it, besides `tensors`
};

absl::Status RunRank(const Plan& plan, const Tensors& whole, Transport& transport, Outcome& outcome) {
  HostMemory memory;
  Communicator communicator(&transport, &memory, {});
  ADJOIN_ASSIGN_OR_RETURN(Parameters parameters, Parameters::Create(plan, transport.rank()));
  parameters.Initialise(plan.spec().seed());
  ADJOIN_ASSIGN_OR_RETURN(auto network, Network::Create(plan, "train", &communicator, &parameters, BuiltinLayers()));
  ADJOIN_ASSIGN_OR_RETURN(auto sync, GradientSync::Create(plan, &communicator, &parameters));
  ADJOIN_ASSIGN_OR_RETURN(const Tensors fields, LocalFields(plan.program(0), whole, transport.rank()));
  const auto peak = std::make_shared<TensorPeak>();
  const c10::DebugInfoGuard guard(c10::DebugInfoKind::PROFILER_STATE, peak);
  for (int step = 0; step < kSteps; ++step) {
    outcome.left_bytes = -peak->held();
    {
      Tape tape;
      ADJOIN_ASSIGN_OR_RETURN(const Network::Result result, network->Forward(fields, tape));
      outcome.losses.push_back(result.loss.item<double>());
      try {
        tape.Backward(result.loss);
      } catch (...) {
        return StatusFromCurrentException();
      }
    }
    ADJOIN_RETURN_IF_ERROR(sync->Sync());
    at::NoGradGuard no_grad;
    for (int i = 0; i < parameters.size(); ++i) {
      at::Tensor parameter = parameters.tensor(i);
      outcome.tensors.push_back((parameters.frozen(i) ? parameter.detach() : parameter.grad()).clone());
      outcome.left_bytes -= static_cast<int64_t>(outcome.tensors.back().nbytes());
      if (parameters.frozen(i)) continue;
      parameter.sub_(parameter.grad(), 0.1);
      parameter.mutable_grad().reset();
    }
    outcome.left_bytes += peak->held();
  }
  outcome.peak_bytes = peak->bytes();
  return absl::OkStatus();
}

struct Marks {
  const char* mark;
  const char* mark2;
};

absl::StatusOr<std::vector<Outcome>> RunMarked(const char* text, int ranks, const std::string& layout,
                                               const Marks& marks) {
  const std::string spec = absl::StrReplaceAll(
      text, {{"LAYOUT", layout}, {"RANKS", absl::StrCat(ranks)}, {"MARK2", marks.mark2}, {"MARK", marks.mark}});
  ADJOIN_ASSIGN_OR_RETURN(const Plan plan, PlanOf(spec, {{"data", 4}}));
  at::manual_seed(7);
  const bool pixels = plan.spec().dataset(0).field(1).shape_size() > 0;
  const Tensors fields = {
      {"image", at::randn({4, 2, 24, 20}, at::kDouble)},
      {"label", at::randint(3, pixels ? std::vector<int64_t>{4, 24, 20} : std::vector<int64_t>{4}, at::kLong)}};
  std::vector<Outcome> outcomes(ranks);
  ADJOIN_RETURN_IF_ERROR(RunRanks(ranks, TransportKind::kInMemoryDelayed, 1, [&](Transport& transport) {
    return RunRank(plan, fields, transport, outcomes[transport.rank()]);
  }));
  return outcomes;
}

void ExpectSame(const std::vector<Outcome>& actual, const std::vector<Outcome>& expected, const std::string& what) {
  for (size_t rank = 0; rank < expected.size(); ++rank) {
    EXPECT_EQ(actual[rank].losses, expected[rank].losses) << what << ", rank " << rank;
    EXPECT_EQ(actual[rank].left_bytes, 0) << what << ", rank " << rank << ": something of a step is never freed";
    ASSERT_EQ(actual[rank].tensors.size(), expected[rank].tensors.size());
    for (size_t i = 0; i < expected[rank].tensors.size(); ++i) {
      EXPECT_TRUE(at::equal(actual[rank].tensors[i], expected[rank].tensors[i]))
          << what << ", rank " << rank << ", tensor " << i;
    }
  }
}

constexpr char kMark[] = "recompute: true";
constexpr Marks kNone = {"", ""};
constexpr Marks kSome = {kMark, ""};
constexpr Marks kOthers = {"", kMark};
constexpr Marks kAll = {kMark, kMark};

TEST(RecomputeTest, GradientsAreThoseOfAPassThatKeepsEverything) {
  const std::map<int, std::string> layouts = {
      {1, "partition: [1, 1, 1, 1]"}, {2, "partition: [1, 1, 1, 2]"}, {4, "partition: [1, 1, 2, 2]"}};
  for (const auto& [ranks, layout] : layouts) {
    const auto kept = RunMarked(kUNet, ranks, layout, kNone);
    ASSERT_TRUE(kept.ok()) << kept.status();
    for (const Marks& marks : {kSome, kOthers, kAll}) {
      const std::string what = absl::StrCat(ranks, " ranks, MARK \"", marks.mark, "\" MARK2 \"", marks.mark2, "\"");
      const auto again = RunMarked(kUNet, ranks, layout, marks);
      ASSERT_TRUE(again.ok()) << what << ": " << again.status();
      ExpectSame(*again, *kept, what);
    }
  }
}

TEST(RecomputeTest, ViewsFrozenLayersAndSharedValues) {
  for (const int ranks : {1, 2, 4}) {
    const auto kept = RunMarked(kMixed, ranks, "", kNone);
    ASSERT_TRUE(kept.ok()) << kept.status();
    const auto again = RunMarked(kMixed, ranks, "", kAll);
    ASSERT_TRUE(again.ok()) << again.status();
    ExpectSame(*again, *kept, absl::StrCat(ranks, " ranks"));
  }
}

TEST(RecomputeTest, SharedWeightsCountEachUseOnce) {
  for (const int ranks : {1, 2, 4}) {
    const auto kept = RunMarked(kTwins, ranks, "", kNone);
    ASSERT_TRUE(kept.ok()) << kept.status();
    for (const Marks& marks : {kSome, kOthers, kAll}) {
      const auto again = RunMarked(kTwins, ranks, "", marks);
      ASSERT_TRUE(again.ok()) << again.status();
      ExpectSame(*again, *kept, absl::StrCat(ranks, " ranks, MARK \"", marks.mark, "\" MARK2 \"", marks.mark2, "\""));
    }
  }
}

// Eight times convolution, normalisation and function: 24 layers in several pieces.
TEST(RecomputeTest, TakesLessMemory) {
  std::string layers;
  for (int i = 0; i < 8; ++i) {
    absl::StrAppend(&layers, "layer { name: \"a", i, "\" ", i == 0 ? "input: \"image\" x: \"cut\" " : "",
                    "MARK conv { out_channels: 8 window { kernel: 3 pad_lo: 1 } } }\n", "layer { name: \"n", i,
                    "\" MARK norm { kind: \"batch\" } }\n", "layer { name: \"f", i,
                    "\" MARK activation { fn: \"gelu\" } }\n");
  }
  const std::string unet = kUNet;
  const std::string deep =
      absl::StrCat(unet.substr(0, unet.find("layer {")), layers, unet.substr(unet.find("layer { name: \"head\"")));
  const auto kept = RunMarked(deep.c_str(), 1, "partition: [1, 1, 1, 1]", kNone);
  const auto again = RunMarked(deep.c_str(), 1, "partition: [1, 1, 1, 1]", kSome);
  ASSERT_TRUE(kept.ok()) << kept.status();
  ASSERT_TRUE(again.ok()) << again.status();
  ExpectSame(*again, *kept, "24 layers");
  EXPECT_LT((*again)[0].peak_bytes, 0.7 * (*kept)[0].peak_bytes);
}

}  // namespace
}  // namespace adjoin
