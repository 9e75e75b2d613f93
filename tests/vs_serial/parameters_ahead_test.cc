// Parameters that are moved travel one layer ahead: they are started before the layer before computes, and waited for
// where they are read; their gradients likewise, backwards. What comes of it is compared with serial LibTorch by the
// tests of all layers, whose parameters have homes of every kind.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <c10/util/Exception.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/status_macros.h"
#include "layers/builtin/builtin_layers.h"
#include "layers/layer.h"
#include "layers/network/layer_clock.h"
#include "layers/network/network.h"
#include "layers/network/parameters.h"
#include "layers/registry.h"
#include "primitives/comm/communicator.h"
#include "primitives/comm/local_memory.h"
#include "primitives/comm/span_recorder.h"
#include "primitives/status_exception.h"
#include "primitives/tape.h"
#include "primitives/transport/transport.h"
#include "primitives/transport/transport_ranks.h"
#include "proto/plan.pb.h"
#include "tests/vs_serial/partitioned_run.h"

namespace adjoin {
namespace {

using ::testing::HasSubstr;

// Nothing moves but the weights: each rank has some of the samples. HOME, RANKS and MARK are replaced.
constexpr char kJob[] = R"(name: "chain" kind: TRAIN ranks: RANKS seed: 1
layout { name: "rows" partition: [RANKS, 1] }
layer { name: "l0" input: "x" x: "rows" HOME linear { out_features: 6 bias: false } }
layer { name: "l1" HOME linear { out_features: 5 bias: false } }
layer { name: "l2" MARK HOME linear { out_features: 4 bias: false } }
layer { name: "l3" MARK HOME linear { out_features: 3 bias: false } }
loss { kind: "cross_entropy" input: "l3" target: "label" }
dataset { name: "data" field { name: "x" idx { path: "x" } shape: [8] }
  field { name: "label" idx { path: "l" } dtype: "int64" } }
train { dataset: "data" batch: 12 steps: 1 optimizer { sgd { lr: 0.1 } } }
precision { compute: "float64" }
)";

// The movements that a rank calls, in order; forward each after the layer that calls it, unless it is computed again.
struct Calls {
  std::string forward, backward;
};

absl::Status RunRank(const Plan& plan, const Tensors& whole, Transport& transport, Calls& calls,
                     const LayerRegistry& registry = BuiltinLayers()) {
  SpanRecorder recorder;
  HostMemory memory;
  Communicator communicator(&transport, &memory, {});
  ADJOIN_ASSIGN_OR_RETURN(Parameters parameters, Parameters::Create(plan, transport.rank()));
  parameters.Initialise(plan.spec().seed());
  ADJOIN_ASSIGN_OR_RETURN(auto network, Network::Create(plan, "train", &communicator, &parameters, registry));
  ADJOIN_ASSIGN_OR_RETURN(const Tensors fields, LocalFields(plan.program(0), whole, transport.rank()));
  recorder.Start(/*most_spans=*/1000);
  communicator.set_recorder(&recorder);
  {
    LayerClock clock(&communicator, network->program().layer_size());
    Tape tape;
    ADJOIN_ASSIGN_OR_RETURN(const Network::Result result, network->Forward(fields, tape));
    try {
      tape.Backward(result.loss);
    } catch (...) {
      return StatusFromCurrentException();
    }
  }
  communicator.set_recorder(nullptr);
  for (const Span& span : recorder.Stop().spans) {
    if (span.kind == SpanKind::kForward) absl::StrAppend(&calls.forward, span.index, ": ");
    if (span.kind != SpanKind::kMovement) continue;
    const bool forward = span.direction == Direction::kForward;
    absl::StrAppend(forward ? &calls.forward : &calls.backward, communicator.OperatorName(span.index), ", ");
  }
  return absl::OkStatus();
}

std::vector<Calls> CallsOf(int ranks, const std::string& home, const std::string& mark = "") {
  const auto plan = PlanOf(absl::StrReplaceAll(kJob, {{"RANKS", absl::StrCat(ranks)}, {"HOME", home}, {"MARK", mark}}),
                           {{"data", 12}});
  EXPECT_TRUE(plan.ok()) << plan.status();
  std::vector<Calls> calls(static_cast<size_t>(ranks));
  if (!plan.ok()) return calls;
  const Tensors whole = {{"x", at::randn({12, 8}, at::kDouble)},
                         {"label", at::randint(3, std::vector<int64_t>{12}, at::kLong)}};
  const absl::Status status = RunRanks(ranks, TransportKind::kInMemory, 1, [&](Transport& transport) {
    return RunRank(*plan, whole, transport, calls[static_cast<size_t>(transport.rank())]);
  });
  EXPECT_TRUE(status.ok()) << status;
  return calls;
}

// The first layer has none before it: its weight moves where it is read. Of each other one the first call starts its
// movement, and the second, when it runs, waits for it. Backwards, what l3 has sent is waited for after l2's backward
// pass, which itself has sent its own by then.
TEST(ParametersAheadTest, TheyAreStartedBeforeTheLayerBeforeRuns) {
  for (const char* home : {"home: SHARDED", "home: OWNER", "home: OWNER owner: 1"}) {
    for (const int ranks : {2, 3}) {
      const std::vector<Calls> calls = CallsOf(ranks, home);
      for (int rank = 0; rank < ranks; ++rank) {
        SCOPED_TRACE(absl::StrCat(home, ", rank ", rank, " of ", ranks));
        EXPECT_EQ(calls[static_cast<size_t>(rank)].forward,
                  "1: l1.weight, 0: l0.weight, 2: l2.weight, 1: l1.weight, 3: l3.weight, 2: l2.weight, 3: l3.weight, ");
        EXPECT_EQ(calls[static_cast<size_t>(rank)].backward,
                  "l3.weight, l2.weight, l3.weight, l1.weight, l2.weight, l0.weight, l1.weight, ");
      }
    }
  }
}

// The recomputed layers l2 and l3 run twice: in the backward pass l2's weight moves where it is read, as there is no
// layer before it, and l3's is started before l2 runs.
TEST(ParametersAheadTest, LayersThatAreComputedAgainStartThemAgain) {
  const std::vector<Calls> calls = CallsOf(2, "home: SHARDED", "recompute: true");
  for (const Calls& of_rank : calls) {
    EXPECT_EQ(of_rank.forward,
              "1: l1.weight, 0: l0.weight, 2: l2.weight, 1: l1.weight, 3: l3.weight, 2: l2.weight, 3: l3.weight, "
              "l3.weight, l2.weight, l3.weight, ");
    EXPECT_EQ(of_rank.backward, "l3.weight, l2.weight, l3.weight, l1.weight, l0.weight, l1.weight, ");
  }
}

// Rank 1 fails in l0, while l1's weight travels. Rank 0 learns why, and not that something was given up.
TEST(ParametersAheadTest, ALayerThatFailsTellsTheOtherRanksWhy) {
  const auto plan = PlanOf(R"(name: "words" kind: TRAIN ranks: 2 seed: 1
layout { name: "rows" partition: [2, 1] }
layer { name: "l0" input: "x" x: "rows" embedding { num_embeddings: 10 dim: 6 } }
layer { name: "l1" home: SHARDED linear { out_features: 5 } }
loss { kind: "mse" input: "l1" target: "t" }
dataset { name: "data" field { name: "x" idx { path: "x" } dtype: "int64" shape: [4] }
  field { name: "t" idx { path: "t" } shape: [4, 5] } }
train { dataset: "data" batch: 4 steps: 1 optimizer { sgd { lr: 0.1 } } }
)",
                           {{"data", 4}});
  ASSERT_TRUE(plan.ok()) << plan.status();
  Tensors whole = {{"x", at::zeros({4, 4}, at::kLong)}, {"t", at::zeros({4, 4, 5}, at::kFloat)}};
  whole["x"][3][2] = 12;
  Calls calls[2];
  const std::vector<absl::Status> statuses = RunRanksCollect(2, TransportKind::kInMemory, 1, [&](Transport& transport) {
    return RunRank(*plan, whole, transport, calls[transport.rank()]);
  });
  for (const absl::Status& status : statuses) {
    EXPECT_EQ(status.code(), absl::StatusCode::kOutOfRange) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("on rank 1: index 12"));
  }
}

// Fails on rank 1 as LibTorch does, whose errors name neither layer nor rank.
class FailingLayer : public LayerModule {
 public:
  using LayerModule::LayerModule;
  at::Tensor Forward(const std::vector<at::Tensor>& inputs, Tape& tape) override {
    TORCH_CHECK(context().rank != 1, "no such kernel");
    return Output(Input(inputs, 0, tape), tape);
  }
};

// Likewise where the layer, and the one whose weight travels, are computed again in the backward pass.
TEST(ParametersAheadTest, AnErrorOfLibTorchIsToldWithItsLayerAndRank) {
  LayerRegistry registry = BuiltinLayers();
  registry.Register("activation", [](LayerContext context) -> absl::StatusOr<std::unique_ptr<LayerModule>> {
    return std::make_unique<FailingLayer>(std::move(context));
  });
  for (const char* mark : {"", "recompute: true"}) {
    SCOPED_TRACE(mark);
    const auto plan = PlanOf(absl::StrReplaceAll(R"(name: "chain" kind: TRAIN ranks: 2 seed: 1
layout { name: "rows" partition: [2, 1] }
layer { name: "l0" input: "x" x: "rows" linear { out_features: 6 } }
layer { name: "l1" MARK activation { fn: "relu" } }
layer { name: "l2" MARK home: SHARDED linear { out_features: 5 } }
loss { kind: "mse" input: "l2" target: "t" }
dataset { name: "data" field { name: "x" idx { path: "x" } shape: [4] }
  field { name: "t" idx { path: "t" } shape: [5] } }
train { dataset: "data" batch: 4 steps: 1 optimizer { sgd { lr: 0.1 } } }
)",
                                                 {{"MARK", mark}}),
                             {{"data", 4}});
    ASSERT_TRUE(plan.ok()) << plan.status();
    const Tensors whole = {{"x", at::zeros({4, 4}, at::kFloat)}, {"t", at::zeros({4, 5}, at::kFloat)}};
    Calls calls[2];
    const auto run = [&](Transport& transport) {
      return RunRank(*plan, whole, transport, calls[transport.rank()], registry);
    };
    for (const absl::Status& status : RunRanksCollect(2, TransportKind::kInMemory, 1, run)) {
      EXPECT_EQ(status.code(), absl::StatusCode::kInternal) << status;
      EXPECT_THAT(std::string(status.message()), HasSubstr("layer \"l1\" on rank 1: no such kernel"));
    }
  }
}

}  // namespace
}  // namespace adjoin
