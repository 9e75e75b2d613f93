// Every kind of layer and loss in every number type: what two ranks compute equals serial LibTorch in float64 within
// the type's rounding, forward, backward and the gradient of the gradient, or the planner refuses it.
// docs/number-types.md has to say it.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/autograd.h>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/status_macros.h"
#include "base/testing/test_seed.h"
#include "layers/builtin/builtin_layers.h"
#include "layers/builtin/builtin_serial_functions.h"
#include "layers/network/gradient_sync.h"
#include "layers/network/network.h"
#include "layers/network/parameters.h"
#include "layers/rules/counted_layout.h"
#include "layers/rules/layout_proto.h"
#include "layers/serial_functions.h"
#include "layers/sum_type.h"
#include "primitives/comm/communicator.h"
#include "primitives/comm/local_memory.h"
#include "primitives/geometry/layout.h"
#include "primitives/status_exception.h"
#include "primitives/tape.h"
#include "primitives/transport/transport.h"
#include "primitives/transport/transport_ranks.h"
#include "tests/vs_serial/activation_inputs.h"
#include "tests/vs_serial/loss_types.h"
#include "tests/vs_serial/number_type_cases.h"
#include "tests/vs_serial/number_type_outcomes.h"
#include "tests/vs_serial/partitioned_run.h"

namespace adjoin {
namespace {

using at::Tensor;

constexpr char kPage[] = "docs/number-types.md";
constexpr int kRanks = 2;

// What a step of a case starts from, float64 numbers that its type has.
struct Numbers {
  Tensors fields;      // "x", "x1", ... "side", "wanted"
  Tensors parameters;  // of "y"
  Tensor cotangent;    // of y
  Tensor direction;    // the gradient of "x" is multiplied with it before it is differentiated again
};

struct Results {
  Tensor y;
  Tensors gradients;  // of fields and parameters
  Tensor twice;       // the second derivative's; undefined where none was asked for
};

Tensor Rounded(const Tensor& numbers, at::ScalarType type) {
  return numbers.is_floating_point() ? numbers.detach().to(type).to(at::kDouble) : numbers.detach();
}

Layer LayerOf(const Plan& plan) {
  for (const Layer& layer : plan.spec().layer()) {
    if (layer.name() == "y") return layer;
  }
  return Layer();
}

// What the case's serial function computes, in float64.
class Serial {
 public:
  Serial(const NumberTypeCase& of, const Plan& plan, at::ScalarType type, uint64_t seed)
      : of_(of),
        spec_(LayerOf(plan)),
        seed_(plan.spec().seed()),
        type_(type),
        generator_(at::make_generator<at::CPUGeneratorImpl>(seed)),
        parameters_(generator_) {
    const int64_t batch = of.inputs[0].shape[0];
    for (size_t i = 0; i < of.inputs.size(); ++i) {
      const NumberTypeInput& input = of.inputs[i];
      numbers.fields[i == 0 ? "x" : absl::StrCat("x", i)] =
          input.below > 0 ? at::randint(0, input.below, input.shape, generator_, at::kLong) : Normal(input.shape);
      if (input.domain != ActivationDomain::kAll) {
        Tensor& numbers_of_input = numbers.fields[i == 0 ? "x" : absl::StrCat("x", i)];
        numbers_of_input = Rounded(Within(input.domain, numbers_of_input), type);
      }
    }
    numbers.fields["side"] = Normal({batch, 1});
    numbers.fields["wanted"] = Normal({batch, 2});
    const Tensor y = Forward(Leaves());  // makes the parameters
    numbers.cotangent = y.is_floating_point() ? Normal(y.sizes()) : Tensor();
    numbers.direction = Normal(of.inputs[0].shape);
    for (const SerialParameters::Entry& entry : parameters_.entries()) {
      numbers.parameters[entry.name] = Rounded(entry.initial, type);
    }
  }

  bool differentiable() const { return numbers.cotangent.defined(); }

  Results Once() {
    const Tensors leaves = Leaves();
    SetParameters();
    Results results;
    const Tensor y = Forward(leaves);
    results.y = y.detach();
    if (!differentiable()) return results;
    y.backward(numbers.cotangent);
    for (const auto& [name, leaf] : leaves) {
      if (leaf.requires_grad()) results.gradients[name] = leaf.grad().defined() ? leaf.grad() : at::zeros_like(leaf);
    }
    for (const SerialParameters::Entry& entry : parameters_.entries()) {
      if (entry.trained) results.gradients[entry.name] = entry.tensor.grad();
    }
    return results;
  }

  Tensor Twice() {
    const Tensors leaves = Leaves();
    SetParameters();
    const Tensor& x = leaves.at("x");
    const Tensor once = torch::autograd::grad({Forward(leaves)}, {x}, {numbers.cotangent}, /*retain_graph=*/true,
                                              /*create_graph=*/true, /*allow_unused=*/true)[0];
    if (!once.defined() || !once.requires_grad()) return at::zeros_like(x);
    (once * numbers.direction).sum().backward();
    return x.grad().defined() ? x.grad() : at::zeros_like(x);
  }

  Numbers numbers;

 private:
  Tensor Normal(at::IntArrayRef shape) { return Rounded(at::randn(shape, generator_, at::kDouble), type_); }

  Tensors Leaves() const {
    Tensors leaves;
    for (size_t i = 0; i < of_.inputs.size(); ++i) {
      const std::string name = i == 0 ? "x" : absl::StrCat("x", i);
      const Tensor leaf = numbers.fields.at(name).detach().clone();
      leaves[name] = leaf.is_floating_point() ? leaf.set_requires_grad(true) : leaf;
    }
    return leaves;
  }

  void SetParameters() {
    at::NoGradGuard no_grad;
    for (const SerialParameters::Entry& entry : parameters_.entries()) {
      Tensor tensor = entry.tensor;
      tensor.copy_(numbers.parameters.at(entry.name));
      tensor.mutable_grad().reset();
    }
  }

  Tensor Forward(const Tensors& leaves) {
    std::vector<Tensor> inputs;
    for (size_t i = 0; i < of_.inputs.size(); ++i) inputs.push_back(leaves.at(i == 0 ? "x" : absl::StrCat("x", i)));
    SerialCall call(spec_, inputs, &parameters_, /*tape=*/nullptr, {seed_, /*step=*/0, /*layer=*/0});
    return (*BuiltinSerialFunctions().Find(of_.kind))(call);
  }

  const NumberTypeCase& of_;
  const Layer spec_;
  const uint64_t seed_;
  const at::ScalarType type_;
  at::Generator generator_;
  SerialParameters parameters_;
};

Tensor InType(const Tensor& numbers, at::ScalarType type) {
  return numbers.is_floating_point() ? numbers.to(type) : numbers;
}

// One rank's part of the step: once, or its gradient's derivative.
absl::Status RunRank(const Plan& plan, const Numbers& numbers, at::ScalarType type, bool twice, Transport& transport,
                     Results& results) {
  HostMemory memory;
  Communicator communicator(&transport, &memory, {});
  const ProgramPlan& program = plan.program(0);
  ADJOIN_ASSIGN_OR_RETURN(Parameters parameters, Parameters::Create(plan, transport.rank()));
  for (const auto& [name, whole] : numbers.parameters) {
    ADJOIN_ASSIGN_OR_RETURN(const int index, parameters.IndexOf(name));
    ADJOIN_RETURN_IF_ERROR(parameters.SetFromGlobal(index, whole));
  }
  ADJOIN_ASSIGN_OR_RETURN(auto network, Network::Create(plan, "train", &communicator, &parameters, BuiltinLayers()));
  ADJOIN_ASSIGN_OR_RETURN(auto sync, GradientSync::Create(plan, &communicator, &parameters));
  Tensors whole;
  for (const auto& [name, field] : numbers.fields) {
    whole[name] = InType(field, name == "wanted" ? SumType(type) : type);  // a target is read in the loss's type
  }
  ADJOIN_ASSIGN_OR_RETURN(const Tensors fields, LocalFields(program, whole, transport.rank()));
  ADJOIN_ASSIGN_OR_RETURN(const Layout layout, LayoutFromProto(program.value(program.layer(0).output()).layout()));
  ADJOIN_ASSIGN_OR_RETURN(const Layout counted, FirstCopy(layout));
  Tape tape;
  ADJOIN_ASSIGN_OR_RETURN(const Network::Result forward, network->Forward(fields, tape, /*keep_values=*/true));
  try {
    const Tensor& y = forward.values.at("y");
    results.y = y.detach();
    if (!numbers.cotangent.defined()) {
      tape.Backward(forward.loss);
      return absl::OkStatus();
    }
    Tensor cotangent = InType(PartOf(numbers.cotangent, layout, transport.rank()), type);
    if (!counted.mesh().Has(transport.rank()))
      cotangent = at::zeros_like(cotangent);  // another rank has the same cells
    if (twice) {
      const Tensor x = fields.at("x");
      const Tensor once = tape.Grad({y}, {x}, {cotangent}, /*create_graph=*/true)[0];
      Tensor direction = numbers.direction;
      for (const ValuePlan& value : program.value()) {
        if (value.name() != "x") continue;
        ADJOIN_ASSIGN_OR_RETURN(const Layout of_x, LayoutFromProto(value.layout()));
        direction = InType(PartOf(numbers.direction, of_x, transport.rank()), type);
      }
      tape.Backward((once * direction).sum());
      results.twice = x.grad().defined() ? x.grad() : at::zeros_like(x);
      return absl::OkStatus();
    }
    tape.Backward(forward.loss + (y * cotangent).sum());
    for (const auto& [name, field] : fields) {
      if (!field.requires_grad()) continue;
      results.gradients[name] = field.grad().defined() ? field.grad() : at::zeros_like(field);
    }
    ADJOIN_RETURN_IF_ERROR(sync->Sync());
    for (int i = 0; i < parameters.size(); ++i) {
      if (!parameters.frozen(i)) results.gradients[parameters.name(i)] = parameters.tensor(i).grad();
    }
  } catch (...) {
    return StatusFromCurrentException();
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Results>> Run(const Plan& plan, const Numbers& numbers, at::ScalarType type, bool twice) {
  std::vector<Results> results(kRanks);
  const uint64_t seed = TestSeed(1);
  ADJOIN_RETURN_IF_ERROR(RunRanks(kRanks, TransportKind::kInMemoryDelayed, seed, [&](Transport& transport) {
    const int rank = transport.rank();
    return RunRank(plan, numbers, type, twice, transport, results[rank]);
  }));
  return results;
}

std::string NameOf(const NumberTypeCase& of) {
  return of.variant.empty() ? of.kind : absl::StrCat(of.kind, " (", of.variant, ")");
}

std::vector<Tensor> PartsOf(const std::vector<Results>& ranks, const std::function<Tensor(const Results&)>& part) {
  std::vector<Tensor> parts;
  for (const Results& rank : ranks) parts.push_back(part(rank));
  return parts;
}

void CompareOnce(const NumberTypeCase& of, const TypeOfJob& type, const Plan& plan, Serial& serial, Outcome& outcome) {
  const Results expected = serial.Once();
  const auto ranks = Run(plan, serial.numbers, type.scalar, /*twice=*/false);
  if (!ranks.ok()) {
    absl::StrAppend(&outcome.differences, type.name, ": ", ranks.status().ToString(), "\n");
    return;
  }
  bool forward_once = true, backward_once = true, of_inputs = false;
  size_t compared = 0;
  const auto gradient = [&](const std::string& name, const LayoutPlan& layout) {
    const auto whole = expected.gradients.find(name);
    if (whole == expected.gradients.end()) return true;
    ++compared;
    return CompareParts(absl::StrCat(type.name, ": gradient of ", name),
                        PartsOf(*ranks, [&](const Results& rank) { return rank.gradients.at(name); }), layout,
                        whole->second, type.tolerance, outcome.differences);
  };
  for (const ValuePlan& value : plan.program(0).value()) {
    of_inputs |= expected.gradients.count(value.name()) > 0;
    backward_once &= gradient(value.name(), value.layout());
    if (value.name() != "y") continue;
    forward_once =
        CompareParts(absl::StrCat(type.name, ": y"), PartsOf(*ranks, [](const Results& rank) { return rank.y; }),
                     value.layout(), expected.y, type.tolerance, outcome.differences);
  }
  for (const ParameterPlan& parameter : plan.parameter()) gradient(parameter.name(), parameter.home());
  if (compared != expected.gradients.size()) absl::StrAppend(&outcome.differences, type.name, ": gradients lack\n");
  OutcomeCells& cells = outcome.of_type[type.name];
  const bool rounded = type.scalar == at::kBFloat16;
  if (rounded && of.float32_forward && !forward_once) {
    absl::StrAppend(&outcome.differences, type.name, ": y is not that of float32, rounded once\n");
  }
  if (rounded && of.float32_backward && !backward_once) {
    absl::StrAppend(&outcome.differences, type.name, ": a gradient is not that of float32, rounded once\n");
  }
  cells.forward = rounded && of.float32_forward ? "float32" : "=";
  cells.backward = !of_inputs ? "" : rounded && of.float32_backward ? "float32" : "=";
}

void CompareTwice(const TypeOfJob& type, const Plan& plan, Serial& serial, Outcome& outcome) {
  const auto ranks = Run(plan, serial.numbers, type.scalar, /*twice=*/true);
  std::string& cell = outcome.of_type[type.name].second;
  // LibTorch lacks some second derivatives, and so do layers.
  const absl::string_view error = ranks.status().message();
  if (absl::StrContains(error, "cannot be differentiated twice") || absl::StrContains(error, "derivative for aten::")) {
    cell = "no";
    return;
  }
  cell = "=";
  const std::string what = absl::StrCat(type.name, ": second derivative");
  if (!ranks.ok()) {
    absl::StrAppend(&outcome.differences, what, ": ", ranks.status().ToString(), "\n");
    return;
  }
  const Tensor expected = serial.Twice();
  for (const ValuePlan& value : plan.program(0).value()) {
    if (value.name() != "x") continue;
    CompareParts(what, PartsOf(*ranks, [](const Results& rank) { return rank.twice; }), value.layout(), expected,
                 4 * type.tolerance, outcome.differences);
  }
}

// Runs the case in all types, once in a program.
const Outcome& OutcomeOf(const NumberTypeCase& of) {
  static auto* outcomes = new std::map<std::string, Outcome>;
  const auto [entry, unknown] = outcomes->insert({NameOf(of), {}});
  Outcome& outcome = entry->second;
  if (!unknown) return outcome;
  for (const TypeOfJob& type : kTypesOfJobs) {
    auto plan = PlanOf(JobTextOf(of, type.name), {{"data", of.inputs[0].shape[0]}});
    if (!plan.ok() && absl::IsUnimplemented(plan.status())) {
      outcome.of_type[type.name] = {"refused", "refused", "refused"};
      continue;
    }
    if (!plan.ok()) {
      absl::StrAppend(&outcome.differences, plan.status().ToString(), "\n", JobTextOf(of, type.name));
      continue;
    }
    MakeFieldsDifferentiable(*plan, "train");
    Serial serial(of, *plan, type.scalar, TestSeed(1));
    CompareOnce(of, type, *plan, serial, outcome);
    if (serial.differentiable() && of.inputs[0].below == 0) CompareTwice(type, *plan, serial, outcome);
  }
  return outcome;
}

class NumberTypesTest : public testing::TestWithParam<std::string> {};

std::vector<std::string> Kinds() { return BuiltinLayers().Kinds(); }

// A new kind of layer gets its case in number_type_cases.cc.
TEST_P(NumberTypesTest, EqualsSerialWithinItsRounding) {
  int cases = 0;
  for (const NumberTypeCase& of : NumberTypeCases()) {
    if (of.kind != GetParam()) continue;
    ++cases;
    EXPECT_EQ(OutcomeOf(of).differences, "") << NameOf(of);
  }
  EXPECT_GT(cases, 0) << "no case of " << GetParam() << " in number_type_cases.cc";
}

INSTANTIATE_TEST_SUITE_P(Layers, NumberTypesTest, testing::ValuesIn(Kinds()),
                         [](const testing::TestParamInfo<std::string>& kind) { return kind.param; });

class LossTypesTest : public testing::TestWithParam<LossTypeCase> {};

TEST_P(LossTypesTest, EqualsSerialWithinItsRounding) { EXPECT_EQ(LossOutcomeOf(GetParam()).differences, ""); }

INSTANTIATE_TEST_SUITE_P(Losses, LossTypesTest, testing::ValuesIn(LossTypeCases()),
                         [](const testing::TestParamInfo<LossTypeCase>& of) {
                           return absl::StrCat(of.param.kind, "_", of.index);
                         });

// `bazel run` writes the page.
TEST(NumberTypesPageTest, SaysWhatWasSeen) {
  std::vector<OutcomeRow> layers, losses;
  for (const NumberTypeCase& of : NumberTypeCases()) layers.push_back({of.kind, of.variant, OutcomeOf(of)});
  for (const LossTypeCase& of : LossTypeCases()) losses.push_back({of.kind, of.variant, LossOutcomeOf(of)});
  const std::string seen = NumberTypesPage(layers, losses);
  if (const char* workspace = getenv("BUILD_WORKSPACE_DIRECTORY"); workspace != nullptr) {
    std::ofstream(absl::StrCat(workspace, "/", kPage)) << seen;
    return;
  }
  std::ifstream file(kPage);
  const std::string page{std::istreambuf_iterator<char>(file), {}};
  EXPECT_TRUE(page == seen) << kPage << " should be (`bazel run //tests/vs_serial:number_types_test` writes it):\n"
                            << seen;
}

}  // namespace
}  // namespace adjoin
