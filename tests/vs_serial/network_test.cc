// What Network refuses, and that the comparison with serial tensors notices a difference.
#include "layers/network/network.h"
#include "layers/builtin/builtin_layers.h"

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/zeros.h>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "layers/layer.h"
#include "layers/network/parameters.h"
#include "layers/registry.h"
#include "layers/rules/roles.h"
#include "primitives/comm/communicator.h"
#include "primitives/comm/local_memory.h"
#include "primitives/tape.h"
#include "primitives/transport/transport.h"
#include "primitives/transport/transport_ranks.h"
#include "tests/vs_serial/partitioned_run.h"
#include "tests/vs_serial/random_jobs.h"

namespace adjoin {
namespace {

// x [2, 3, 8] over two ranks -> conv "y" [2, 2, 6] -> gathered, flattened, "head".
absl::StatusOr<Plan> ConvPlan() {
  JobParts job;
  job.ranks = 2;
  job.batch = 2;
  job.x_shape = {3, 8};
  job.layouts = LayoutText("x", {1, 1, 2}, {0, 1});
  job.layers = "layer { name: \"y\" input: \"x\" x: \"x\" conv { out_channels: 2 window { kernel: 3 } } }\n";
  job.last_dims = 3;
  return PlanOf(JobText(job), {{"data", 2}});
}

// Runs one forward pass on every rank and returns the first error. `change` may alter the local fields.
absl::Status Forward(const std::string& program, const LayerRegistry& registry,
                     const std::function<void(Tensors&)>& change) {
  ADJOIN_ASSIGN_OR_RETURN(const Plan plan, ConvPlan());
  return RunRanks(2, TransportKind::kInMemory, 1, [&](Transport& transport) -> absl::Status {
    HostMemory memory;
    Communicator communicator(&transport, &memory, {});
    ADJOIN_ASSIGN_OR_RETURN(Parameters parameters, Parameters::Create(plan, transport.rank()));
    ADJOIN_ASSIGN_OR_RETURN(auto network, Network::Create(plan, program, &communicator, &parameters, registry));
    Tensors fields = {{"x", at::zeros({2, 3, 4}, at::kDouble)},
                      {"label", at::zeros({transport.rank() == 0 ? 2 : 0}, at::kLong)}};
    change(fields);
    Tape tape;
    return network->Forward(fields, tape).status();
  });
}

void Nothing(Tensors&) {}

void ExpectError(const absl::Status& status, absl::StatusCode code, const std::string& part) {
  EXPECT_EQ(status.code(), code) << status;
  EXPECT_NE(std::string(status.message()).find(part), std::string::npos) << status;
}

TEST(NetworkTest, RunsWithTheBuiltinLayers) {
  const absl::Status status = Forward("train", BuiltinLayers(), Nothing);
  EXPECT_TRUE(status.ok()) << status;
}

TEST(NetworkTest, UnknownProgramListsTheKnownOnes) {
  ExpectError(Forward("evaluate", BuiltinLayers(), Nothing), absl::StatusCode::kInvalidArgument,
              "no program \"evaluate\" in the plan; known: train");
}

TEST(NetworkTest, LayerWithoutBuilderListsTheKnownOnes) {
  LayerRegistry registry;
  registry.Register("relu6", [](LayerContext) -> absl::StatusOr<std::unique_ptr<LayerModule>> {
    return absl::InvalidArgumentError("never asked for");
  });
  ExpectError(Forward("train", registry, Nothing), absl::StatusCode::kInvalidArgument,
              "layer \"y\": no builder for kind \"conv\"; known: relu6");
}

TEST(NetworkTest, MissingOrMisshapenDataIsNamed) {
  ExpectError(Forward("train", BuiltinLayers(), [](Tensors& fields) { fields.erase("x"); }),
              absl::StatusCode::kInvalidArgument, "no data for \"x\"");
  ExpectError(Forward("train", BuiltinLayers(),
                      [](Tensors& fields) {
                        fields["x"] = at::zeros({2, 3, 5}, at::kDouble);
                      }),
              absl::StatusCode::kInvalidArgument, "data for \"x\" is Double 2x3x5, expected Double 2x3x4");
  ExpectError(Forward("train", BuiltinLayers(),
                      [](Tensors& fields) {
                        fields["x"] = at::zeros({2, 3, 4});
                      }),
              absl::StatusCode::kInvalidArgument, "is Float 2x3x4, expected Double");
}

TEST(NetworkTest, ALabelThatIsNoClassIsNamed) {
  for (const int64_t label : {3, -100}) {
    ExpectError(Forward("train", BuiltinLayers(), [&](Tensors& fields) { fields["label"].fill_(label); }),
                absl::StatusCode::kInvalidArgument,
                absl::StrCat("loss 0, cross_entropy of \"head\": the target \"label\" holds ", label,
                             ", but the prediction has 3 classes, 0 to 2"));
  }
}

// Returns one row too few.
class ShortLayer : public LayerModule {
 public:
  using LayerModule::LayerModule;
  at::Tensor Forward(const std::vector<at::Tensor>& inputs, Tape& tape) override {
    Input(inputs, 0, tape);
    Parameter("weight", tape);
    Parameter("bias", tape);
    return Output(at::zeros({1, 2, 3}, at::kDouble), tape);
  }
};

TEST(NetworkTest, ALayerThatDisagreesWithThePlanIsNamed) {
  LayerRegistry registry = BuiltinLayers();
  registry.Register("conv", [](LayerContext context) -> absl::StatusOr<std::unique_ptr<LayerModule>> {
    return std::make_unique<ShortLayer>(std::move(context));
  });
  ExpectError(Forward("train", registry, Nothing), absl::StatusCode::kInternal,
              "returned shape 1x2x3; the plan says 2x2x3");
}

// A convolution that uses the role `asked` besides its parameters; without `forgotten`.
class OddLayer : public LayerModule {
 public:
  OddLayer(LayerContext context, std::string asked, std::string forgotten)
      : LayerModule(std::move(context)), asked_(std::move(asked)), forgotten_(std::move(forgotten)) {}
  at::Tensor Forward(const std::vector<at::Tensor>& inputs, Tape& tape) override {
    Input(inputs, 0, tape);
    for (const char* role : {kRoleWeight, kRoleBias}) {
      if (role != forgotten_) Parameter(role, tape);
    }
    const at::Tensor y = at::zeros(context().compute_shape, at::kDouble);
    return Output(asked_.empty() ? y : Move(asked_, y, tape), tape);
  }

 private:
  const std::string asked_, forgotten_;
};

LayerRegistry WithOddConv(const std::string& asked, const std::string& forgotten) {
  LayerRegistry registry = BuiltinLayers();
  registry.Register("conv", [=](LayerContext context) -> absl::StatusOr<std::unique_ptr<LayerModule>> {
    return std::make_unique<OddLayer>(std::move(context), asked, forgotten);
  });
  return registry;
}

TEST(NetworkTest, ARoleThatTheRuleDoesNotNameIsRefused) {
  ExpectError(Forward("train", WithOddConv("summ", ""), Nothing), absl::StatusCode::kInternal,
              "layer \"y\" asks for the role \"summ\", which its rule does not name; the rule's roles are "
              "\"bias\", \"weight\", \"x\", \"y\"");
}

TEST(NetworkTest, ARoleThatTheLayerDoesNotUseIsNamed) {
  ExpectError(Forward("train", WithOddConv("", "bias"), Nothing), absl::StatusCode::kInternal,
              "layer \"y\" did not use the role \"bias\" in its forward pass, but its rule names it");
}

// A linear layer that does something else than reading its weight with Parameter.
class WeightLayer : public LayerModule {
 public:
  enum class Does { kMovesIt, kStartsIt, kReadsItOnce };
  WeightLayer(LayerContext context, Does does) : LayerModule(std::move(context)), does_(does) {}
  at::Tensor Forward(const std::vector<at::Tensor>& inputs, Tape& tape) override {
    const at::Tensor x = Input(inputs, 0, tape);
    const at::Tensor home = context().parameters.at(kRoleWeight);
    at::Tensor weight;
    switch (does_) {
      case Does::kMovesIt: weight = Move(kRoleWeight, home, tape); break;
      case Does::kStartsIt: weight = StartMove(kRoleWeight, home, tape)->Wait(tape); break;
      case Does::kReadsItOnce:
        if (passes_++ == 0) weight = Parameter(kRoleWeight, tape);
        break;
    }
    return Output(weight.defined() ? x.matmul(weight.t()) : at::zeros(context().compute_shape, at::kDouble), tape);
  }

 private:
  const Does does_;
  int passes_ = 0;
};

// Each rank has some of the samples and of the weights; those of "b" are on their way before it runs.
TEST(NetworkTest, ALayerThatDoesNotReadWhatWasStartedForItIsNamed) {
  const auto plan = PlanOf(R"(name: "chain" kind: TRAIN ranks: 2
layout { name: "rows" partition: [2, 1] }
layer { name: "a" input: "x" x: "rows" linear { out_features: 4 bias: false } }
layer { name: "b" home: SHARDED linear { out_features: 4 bias: false } }
loss { kind: "mse" input: "b" target: "t" }
dataset { name: "data" field { name: "x" idx { path: "x" } shape: [4] }
  field { name: "t" idx { path: "t" } shape: [4] } }
train { dataset: "data" batch: 4 steps: 1 optimizer { sgd { lr: 0.1 } } }
precision { compute: "float64" }
)",
                           {{"data", 4}});
  ASSERT_TRUE(plan.ok()) << plan.status();
  using Does = WeightLayer::Does;
  const std::string moves =
      "layer \"b\" moves its parameter of the role \"weight\" itself; right is that each Forward "
      "reads it with Parameter, once";
  const std::map<Does, std::string> expected = {
      {Does::kMovesIt, moves},
      {Does::kStartsIt, moves},
      {Does::kReadsItOnce,
       "layer \"b\" did not read its parameter of the role \"weight\" in this forward pass; right is "
       "that each Forward reads it with Parameter, once"}};
  for (const auto& [does, message] : expected) {
    LayerRegistry registry = BuiltinLayers();
    const LayerRegistry builtin = BuiltinLayers();
    registry.Register("linear",
                      [&builtin, does = does](LayerContext context) -> absl::StatusOr<std::unique_ptr<LayerModule>> {
                        if (context.plan.name() != "b") return builtin.Build(std::move(context));
                        return std::make_unique<WeightLayer>(std::move(context), does);
                      });
    const std::vector<absl::Status> statuses =
        RunRanksCollect(2, TransportKind::kInMemory, 1, [&](Transport& transport) -> absl::Status {
          HostMemory memory;
          Communicator communicator(&transport, &memory, {});
          ADJOIN_ASSIGN_OR_RETURN(Parameters parameters, Parameters::Create(*plan, transport.rank()));
          ADJOIN_ASSIGN_OR_RETURN(auto network, Network::Create(*plan, "train", &communicator, &parameters, registry));
          const Tensors fields = {{"x", at::zeros({2, 4}, at::kDouble)}, {"t", at::zeros({2, 4}, at::kDouble)}};
          for (int pass = 0; pass < 2; ++pass) {
            Tape tape;
            ADJOIN_RETURN_IF_ERROR(network->Forward(fields, tape).status());
          }
          return absl::OkStatus();
        });
    for (const absl::Status& status : statuses) ExpectError(status, absl::StatusCode::kInternal, message);
  }
}

TEST(ComparisonTest, NoticesAWrongValueAndAMissingName) {
  auto plan = ConvPlan();
  ASSERT_TRUE(plan.ok()) << plan.status();
  RandomJobs random(1);
  StepInput input;
  input.fields = {{"x", random.Normal({2, 3, 8})}, {"label", at::zeros({2}, at::kLong)}};
  auto ranks = RunStep(*plan, input);
  ASSERT_TRUE(ranks.ok()) << ranks.status();

  Expected expected;
  for (int i = 0; i < plan->parameter_size(); ++i) {
    expected.parameter_grads[plan->parameter(i).name()] = (*ranks)[0].collected[i];
  }
  EXPECT_EQ(Differences(*plan, "train", *ranks, expected, 1e-10), "");
  const at::Tensor right = expected.parameter_grads["y.weight"];
  expected.parameter_grads["y.weight"] = right + 1e-9;
  EXPECT_NE(Differences(*plan, "train", *ranks, expected, 1e-10), "");
  expected.parameter_grads["y.weight"] = right;
  expected.values["z"] = right;
  EXPECT_NE(Differences(*plan, "train", *ranks, expected, 1e-10), "");
}

}  // namespace
}  // namespace adjoin
