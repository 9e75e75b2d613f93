// Every kind of layer in every number type: what two ranks compute equals serial LibTorch in float64 within the type's
// rounding, forward, backward and, in float32 and float64, the gradient of the gradient, or the planner refuses it.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
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
#include "absl/strings/str_join.h"
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
#include "tests/vs_serial/number_type_cases.h"
#include "tests/vs_serial/partitioned_run.h"

namespace adjoin {
namespace {

using at::Tensor;

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
  Serial(const LayerCase& of, const Plan& plan, at::ScalarType type, uint64_t seed)
      : of_(of),
        spec_(LayerOf(plan)),
        seed_(plan.spec().seed()),
        type_(type),
        generator_(at::make_generator<at::CPUGeneratorImpl>(seed)),
        parameters_(generator_) {
    const int64_t batch = of.inputs[0].shape[0];
    for (size_t i = 0; i < of.inputs.size(); ++i) {
      const LayerCaseInput& input = of.inputs[i];
      numbers.fields[i == 0 ? "x" : absl::StrCat("x", i)] =
          input.below > 0 ? at::randint(0, input.below, input.shape, generator_, at::kLong) : Normal(input.shape);
    }
    numbers.fields["side"] = Normal({batch, 1});
    numbers.fields["wanted"] = Normal({batch, 2});
    const Tensor y = Forward(Leaves());  // makes the parameters
    numbers.cotangent = Normal(y.sizes());
    numbers.direction = Normal(of.inputs[0].shape);
    for (const SerialParameters::Entry& entry : parameters_.entries()) {
      numbers.parameters[entry.name] = Rounded(entry.initial, type);
    }
  }

  Results Once() {
    const Tensors leaves = Leaves();
    SetParameters();
    Results results;
    const Tensor y = Forward(leaves);
    y.backward(numbers.cotangent);
    results.y = y.detach();
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

  const LayerCase& of_;
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
    Tensor cotangent = InType(PartOf(numbers.cotangent, layout, transport.rank()), type);
    if (!counted.mesh().Has(transport.rank()))
      cotangent = at::zeros_like(cotangent);  // another rank has the same cells
    results.y = y.detach();
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

// The largest distance of a rank's part from what it should be, relative to the whole's largest element.
absl::StatusOr<double> Distance(const std::vector<Results>& ranks, const LayoutPlan& layout_plan,
                                const Tensor& expected, const std::function<Tensor(const Results&)>& part) {
  ADJOIN_ASSIGN_OR_RETURN(const Layout layout, LayoutFromProto(layout_plan));
  const Tensor whole = expected.to(at::kDouble).reshape(layout.shape());
  const double largest = std::max(whole.abs().max().item<double>(), 1e-30);
  double distance = 0;
  for (int rank = 0; rank < kRanks; ++rank) {
    const Tensor own = PartOf(whole, layout, rank), actual = part(ranks[rank]);
    if (!actual.defined() || actual.sizes() != own.sizes()) return absl::InternalError("it has another shape");
    if (own.numel() == 0) continue;
    const double off = (actual.to(at::kDouble) - own).abs().max().item<double>() / largest;
    distance = off <= distance ? distance : off;  // NaN too
  }
  return distance;
}

std::string NameOf(const LayerCase& of) {
  return of.variant.empty() ? of.kind : absl::StrCat(of.kind, " (", of.variant, ")");
}

struct TypeOfJob {
  const char* name;
  at::ScalarType scalar;
  double tolerance;  // for sums of a few dozen numbers of about one size
};
constexpr TypeOfJob kTypes[] = {  //
    {"float64", at::kDouble, 1e-12},
    {"float32", at::kFloat, 4e-6},
    {"bfloat16", at::kBFloat16, 1.0 / 64}};

// Adds to `differences` where the ranks' parts are further from the whole than `tolerance`.
void Compare(const std::string& what, const std::vector<Results>& ranks, const LayoutPlan& layout, const Tensor& whole,
             double tolerance, const std::function<Tensor(const Results&)>& part, std::string& differences) {
  const auto distance = Distance(ranks, layout, whole, part);
  if (distance.ok() && *distance <= tolerance) return;
  absl::StrAppend(&differences, what, ": ",
                  distance.ok() ? absl::StrCat("off by ", *distance, " of its largest") : distance.status().ToString(),
                  "\n");
}

void CompareOnce(const TypeOfJob& type, const Plan& plan, Serial& serial, std::string& differences) {
  const Results expected = serial.Once();
  const auto ranks = Run(plan, serial.numbers, type.scalar, /*twice=*/false);
  if (!ranks.ok()) {
    absl::StrAppend(&differences, type.name, ": ", ranks.status().ToString(), "\n");
    return;
  }
  size_t compared = 0;
  const auto gradient = [&](const std::string& name, const LayoutPlan& layout) {
    const auto of = expected.gradients.find(name);
    if (of == expected.gradients.end()) return;
    ++compared;
    Compare(
        absl::StrCat(type.name, ": gradient of ", name), *ranks, layout, of->second, type.tolerance,
        [&](const Results& rank) { return rank.gradients.at(name); }, differences);
  };
  for (const ValuePlan& value : plan.program(0).value()) {
    gradient(value.name(), value.layout());
    if (value.name() != "y") continue;
    Compare(
        absl::StrCat(type.name, ": y"), *ranks, value.layout(), expected.y, type.tolerance,
        [](const Results& rank) { return rank.y; }, differences);
  }
  for (const ParameterPlan& parameter : plan.parameter()) gradient(parameter.name(), parameter.home());
  if (compared != expected.gradients.size()) absl::StrAppend(&differences, type.name, ": gradients lack\n");
}

void CompareTwice(const TypeOfJob& type, const Plan& plan, Serial& serial, std::string& differences) {
  const auto ranks = Run(plan, serial.numbers, type.scalar, /*twice=*/true);
  // LibTorch lacks some second derivatives, and so do layers.
  const absl::string_view error = ranks.status().message();
  if (absl::StrContains(error, "cannot be differentiated twice") || absl::StrContains(error, "derivative for aten::")) {
    return;
  }
  const std::string what = absl::StrCat(type.name, ": second derivative");
  if (!ranks.ok()) {
    absl::StrAppend(&differences, what, ": ", ranks.status().ToString(), "\n");
    return;
  }
  const Tensor expected = serial.Twice();
  for (const ValuePlan& value : plan.program(0).value()) {
    if (value.name() != "x") continue;
    Compare(
        what, *ranks, value.layout(), expected, 4 * type.tolerance, [](const Results& rank) { return rank.twice; },
        differences);
  }
}

// "" where the case is as it should be in all types.
std::string DifferencesOf(const LayerCase& of) {
  std::string differences;
  for (const TypeOfJob& type : kTypes) {
    auto plan = PlanOf(JobTextOf(of, type.name), {{"data", of.inputs[0].shape[0]}});
    if (!plan.ok() && absl::IsUnimplemented(plan.status())) continue;
    if (!plan.ok()) {
      absl::StrAppend(&differences, plan.status().ToString(), "\n", JobTextOf(of, type.name));
      continue;
    }
    MakeFieldsDifferentiable(*plan, "train");
    Serial serial(of, *plan, type.scalar, TestSeed(1));
    CompareOnce(type, *plan, serial, differences);
    if (type.scalar != at::kBFloat16 && of.inputs[0].below == 0) CompareTwice(type, *plan, serial, differences);
  }
  return differences;
}

class NumberTypesTest : public testing::TestWithParam<std::string> {};

std::vector<std::string> Kinds() { return BuiltinLayers().Kinds(); }

// A new kind of layer gets its case in number_type_cases.cc.
TEST_P(NumberTypesTest, EqualsSerialWithinItsRounding) {
  int cases = 0;
  for (const LayerCase& of : LayerCases()) {
    if (of.kind != GetParam()) continue;
    ++cases;
    EXPECT_EQ(DifferencesOf(of), "") << NameOf(of);
  }
  EXPECT_GT(cases, 0) << "no case of " << GetParam() << " in number_type_cases.cc";
}

INSTANTIATE_TEST_SUITE_P(Layers, NumberTypesTest, testing::ValuesIn(Kinds()),
                         [](const testing::TestParamInfo<std::string>& kind) { return kind.param; });

}  // namespace
}  // namespace adjoin
