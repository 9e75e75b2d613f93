// Times of layers: what is measured is there, is less than the step, belongs to layers that compute or move something,
// and changes no bit of losses and gradients; on 1, 2 and 4 ranks, with and without layers that are computed again.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <ATen/Context.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/time/time.h"
#include "base/status_macros.h"
#include "layers/builtin/builtin_layers.h"
#include "layers/network/layer_clock.h"
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

namespace adjoin {
namespace {

// RANKS and MARK are replaced. "a1" and "t1" need no gradient; "s1" and "sum" read one value, "same" returns its input.
constexpr char kBranches[] = R"(name: "branches" kind: TRAIN ranks: RANKS seed: 2
layout { name: "rows" partition: [1, 1, RANKS, 1] }
layer { name: "a1" input: "image" x: "rows" frozen: true conv { out_channels: 4 window { kernel: 3 pad_lo: 1 } } }
layer { name: "t1" activation { fn: "tanh" } }
layer { name: "a2" MARK conv { out_channels: 4 window { kernel: 3 pad_lo: 1 } } }
layer { name: "n2" MARK norm { kind: "batch" } }
layer { name: "a3" MARK weights_of: "a2" conv { out_channels: 4 window { kernel: 3 pad_lo: 1 } } }
layer { name: "same" dropout { p: 0 } }
layer { name: "sum" input: ["same", "n2"] add {} }
layer { name: "flat" flatten {} }
layer { name: "fc" linear { out_features: 5 } }
loss { kind: "cross_entropy" input: "fc" target: "label" }
dataset { name: "data" field { name: "image" idx { path: "i" } shape: [4, 16, 12] }
  field { name: "label" idx { path: "l" } dtype: "int64" } }
train { dataset: "data" batch: 4 steps: 2 optimizer { sgd { lr: 0.1 } } }
precision { compute: "float64" }
)";
constexpr char kRecompute[] = "recompute: true";

struct Outcome {
  double loss = 0;
  std::vector<at::Tensor> gradients;
  std::vector<LayerSeconds> seconds;
  double step = 0;     // seconds of both passes
  double moved = 0;    // of them in movements
  double after = 0;    // of these in one after the backward pass
  double between = 0;  // what a layer was charged with in a pass after the clock had stopped
};

absl::Status Pass(Network& network, const Tensors& fields, double* loss) {
  Tape tape;
  ADJOIN_ASSIGN_OR_RETURN(const Network::Result result, network.Forward(fields, tape));
  *loss = result.loss.item<double>();
  try {
    tape.Backward(result.loss);
  } catch (...) {
    return StatusFromCurrentException();
  }
  LayerClock::EndBackward();
  return absl::OkStatus();
}

absl::Status RunRank(const Plan& plan, const Tensors& whole, Transport& transport, bool measured, Outcome& outcome) {
  HostMemory memory;
  Communicator communicator(&transport, &memory, {});
  ADJOIN_ASSIGN_OR_RETURN(Parameters parameters, Parameters::Create(plan, transport.rank()));
  parameters.Initialise(plan.spec().seed());
  ADJOIN_ASSIGN_OR_RETURN(auto network, Network::Create(plan, "train", &communicator, &parameters, BuiltinLayers()));
  ADJOIN_ASSIGN_OR_RETURN(const Tensors fields, LocalFields(plan.program(0), whole, transport.rank()));
  {
    std::optional<LayerClock> clock;
    if (measured) clock.emplace(&communicator, network->program().layer_size());
    const auto begin = std::chrono::steady_clock::now();
    ADJOIN_RETURN_IF_ERROR(Pass(*network, fields, &outcome.loss));
    // Movements after the backward pass, as sums of gradients, are none of the last layer's.
    const absl::Duration moved = communicator.time_moving();
    ADJOIN_RETURN_IF_ERROR(network->SumOverRanks({1}).status());
    outcome.after = absl::ToDoubleSeconds(communicator.time_moving() - moved);
    outcome.moved = absl::ToDoubleSeconds(communicator.time_moving());
    outcome.step = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    if (measured) outcome.seconds = clock->Finish();
    for (int i = 0; i < parameters.size(); ++i) {
      const at::Tensor& gradient = parameters.tensor(i).grad();
      if (gradient.defined()) outcome.gradients.push_back(gradient.clone());
    }
    double again = 0;
    ADJOIN_RETURN_IF_ERROR(Pass(*network, fields, &again));
    if (!measured) return absl::OkStatus();
    const std::vector<LayerSeconds> after = clock->Finish();
    for (size_t i = 0; i < after.size(); ++i) outcome.between += after[i].sum() - outcome.seconds[i].sum();
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Outcome>> RunMarked(int ranks, const std::string& mark, bool measured,
                                               std::vector<std::string>* names) {
  const std::string spec = absl::StrReplaceAll(kBranches, {{"RANKS", absl::StrCat(ranks)}, {"MARK", mark}});
  ADJOIN_ASSIGN_OR_RETURN(const Plan plan, PlanOf(spec, {{"data", 4}}));
  names->clear();
  for (const LayerPlan& layer : plan.program(0).layer()) names->push_back(layer.name());
  at::manual_seed(7);
  const Tensors fields = {{"image", at::randn({4, 4, 16, 12}, at::kDouble)},
                          {"label", at::randint(3, std::vector<int64_t>{4}, at::kLong)}};
  std::vector<Outcome> outcomes(static_cast<size_t>(ranks));
  ADJOIN_RETURN_IF_ERROR(RunRanks(ranks, TransportKind::kInMemoryDelayed, 1, [&](Transport& transport) {
    return RunRank(plan, fields, transport, measured, outcomes[static_cast<size_t>(transport.rank())]);
  }));
  return outcomes;
}

TEST(LayerTimesTest, EachLayerHasItsOwnAndNoBitChanges) {
  const std::set<std::string> without_gradient = {"a1", "t1"};
  for (const int ranks : {1, 2, 4}) {
    for (const std::string mark : {"", kRecompute}) {
      SCOPED_TRACE(absl::StrCat(ranks, " ranks, \"", mark, "\""));
      std::vector<std::string> names;
      const auto plain = RunMarked(ranks, mark, /*measured=*/false, &names);
      ASSERT_TRUE(plain.ok()) << plain.status();
      const auto measured = RunMarked(ranks, mark, /*measured=*/true, &names);
      ASSERT_TRUE(measured.ok()) << measured.status();
      for (int rank = 0; rank < ranks; ++rank) {
        const Outcome& outcome = (*measured)[static_cast<size_t>(rank)];
        const Outcome& expected = (*plain)[static_cast<size_t>(rank)];
        EXPECT_EQ(outcome.loss, expected.loss);
        ASSERT_EQ(outcome.gradients.size(), expected.gradients.size());
        for (size_t i = 0; i < expected.gradients.size(); ++i) {
          EXPECT_TRUE(at::equal(outcome.gradients[i], expected.gradients[i])) << "rank " << rank << ", tensor " << i;
        }
        ASSERT_EQ(outcome.seconds.size(), names.size());
        EXPECT_EQ(outcome.between, 0) << "a stopped clock goes on";
        double sum = 0, moved = 0;
        for (size_t i = 0; i < names.size(); ++i) {
          const LayerSeconds& layer = outcome.seconds[i];
          sum += layer.sum();
          moved += layer.movement + layer.wait;
          EXPECT_GT(layer.forward, 0) << names[i] << ", rank " << rank;
          EXPECT_GE(layer.movement, 0) << names[i] << ", rank " << rank;
          EXPECT_GE(layer.wait, 0) << names[i] << ", rank " << rank;
          const bool convolves = names[i][0] == 'a';
          if (convolves && ranks > 1) {
            EXPECT_GT(layer.movement, 0) << names[i] << ", rank " << rank << ": its halo";
          }
          if (names[i] == "t1" || names[i] == "same") {
            EXPECT_EQ(layer.movement + layer.wait, 0) << names[i];
          }
          if (without_gradient.count(names[i]) > 0 && ranks == 1) {
            EXPECT_EQ(layer.backward, 0) << names[i];
          }
          if (names[i] == "t1") {
            EXPECT_EQ(layer.backward, 0) << "rank " << rank;
          }
          if (names[i] == "a2" || names[i] == "n2" || names[i] == "a3" || names[i] == "fc") {
            EXPECT_GT(layer.backward, 0) << names[i] << ", rank " << rank;
          }
        }
        EXPECT_LE(sum, outcome.step) << "rank " << rank;
        EXPECT_LE(moved, (outcome.moved - outcome.after) * (1 + 1e-9)) << "rank " << rank;
      }
    }
  }
}

// The clock of one thread is none of another's.
TEST(LayerTimesTest, APassOfAnotherThreadIsNotMeasured) {
  const absl::Status status = RunRanks(1, TransportKind::kInMemoryDelayed, 1, [](Transport& transport) {
    HostMemory memory;
    Communicator communicator(&transport, &memory, {});
    LayerClock clock(&communicator, 4);
    std::thread([] { const LayerClock::Pass pass(3); }).join();
    for (const LayerSeconds& layer : clock.Finish()) EXPECT_EQ(layer.sum(), 0);
    return absl::OkStatus();
  });
  EXPECT_TRUE(status.ok()) << status;
}

}  // namespace
}  // namespace adjoin
