// Sums, products and powers: of two values, of a value and a number, and of a value and what is known at import.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "importer/constants/constant_tensor.h"
#include "importer/layers/op_rules.h"
#include "importer/layers/rule_arguments.h"

namespace adjoin {
namespace {

// One of the two arguments of an operator.
struct Operand {
  enum class Kind { kNumber, kConstant, kParameter, kLayer };
  Kind kind = Kind::kNumber;
  double number = 0;
  std::string value;  // of the graph
};

Layer FunctionOf(const std::string& fn, const std::vector<double>& arguments = {}) {
  Layer layer;
  layer.mutable_activation()->set_fn(fn);
  for (double argument : arguments) layer.mutable_activation()->add_arg(argument);
  return layer;
}

absl::StatusOr<Operand> OperandOf(const OpNode& node, const std::string& name, LayerBuilder& builder) {
  Operand operand;
  operand.value = node.Tensor(name);
  if (operand.value.empty()) {
    if (!node.Has(name) || node.Floats(name).size() != 1) return Unsupported("its argument ", name, " is no number");
    operand.number = node.Float(name, 0);
    return operand;
  }
  operand.kind = Operand::Kind::kLayer;
  if (builder.IsLayer(operand.value)) return operand;
  operand.kind = Operand::Kind::kParameter;
  if (builder.ParameterOf(operand.value) != nullptr && builder.IsFloat(operand.value)) return operand;
  operand.kind = Operand::Kind::kConstant;
  if (!builder.IsConstant(operand.value)) return operand;
  ADJOIN_ASSIGN_OR_RETURN(const std::optional<double> number, builder.NumberOf(operand.value));
  if (!number.has_value()) return operand;
  operand.kind = Operand::Kind::kNumber;
  operand.number = *number;
  return operand;
}

// An operator whose first output has the type and, where another argument is known, the shape of `value`.
absl::Status CheckKeeps(const OpNode& node, const LayerBuilder& builder, const std::string& value, bool shape) {
  if (node.outputs.empty()) return Unsupported("it returns nothing");
  if (!builder.IsFloat(value))
    return Unsupported("it computes with whole numbers or truth values, which layers do not");
  if (!builder.SameType(value, node.outputs[0])) {
    return Unsupported("it changes the type of its tensor; precision.compute is a job's one type");
  }
  ADJOIN_ASSIGN_OR_RETURN(const std::vector<int64_t> from, builder.Shape(value));
  ADJOIN_ASSIGN_OR_RETURN(const std::vector<int64_t> to, builder.Shape(node.outputs[0]));
  if (shape && from != to) return Unsupported("its result is larger than its input; right would be an expand before");
  return absl::OkStatus();
}

absl::Status AddFunctions(const OpNode& node, LayerBuilder& builder, const std::string& value,
                          const std::vector<Layer>& functions) {
  ADJOIN_RETURN_IF_ERROR(CheckKeeps(node, builder, value, /*shape=*/true));
  for (const Layer& function : functions) {
    for (double argument : function.activation().arg()) {
      if (!std::isfinite(argument)) return Unsupported("it has an argument that is not finite");
    }
  }
  return builder.AddElementWise(node, functions, value);
}

absl::Status AddScaled(const OpNode& node, LayerBuilder& builder, const std::string& value, double factor,
                       double summand) {
  std::vector<Layer> functions;
  if (factor == -1) {
    functions.push_back(FunctionOf("neg"));
  } else if (factor != 1) {
    functions.push_back(FunctionOf("mul", {factor}));
  }
  if (summand != 0 || functions.empty()) functions.push_back(FunctionOf("add", {summand}));
  return AddFunctions(node, builder, value, functions);
}

// The program's result has the shape to which those of its arguments broadcast.
absl::Status CheckBroadcast(const OpNode& node, const LayerBuilder& builder, const std::string& a,
                            const std::string& b) {
  ADJOIN_ASSIGN_OR_RETURN(std::vector<int64_t> of_a, builder.Shape(a));
  ADJOIN_ASSIGN_OR_RETURN(std::vector<int64_t> of_b, builder.Shape(b));
  ADJOIN_ASSIGN_OR_RETURN(const std::vector<int64_t> result, builder.Shape(node.outputs[0]));
  bool fits = std::max(of_a.size(), of_b.size()) == result.size();
  for (std::vector<int64_t>* shape : {&of_a, &of_b}) {
    if (fits) shape->insert(shape->begin(), result.size() - shape->size(), 1);
  }
  for (size_t i = 0; fits && i < result.size(); ++i) {
    fits = (of_a[i] == result[i] && (of_b[i] == result[i] || of_b[i] == 1)) || (of_a[i] == 1 && of_b[i] == result[i]);
  }
  return fits ? absl::OkStatus() : Unsupported("its result has another shape than its two tensors broadcast to");
}

// Two layers' outputs; functions of the second one first.
absl::Status AddJoined(const OpNode& node, LayerBuilder& builder, bool add, const std::string& a, const std::string& b,
                       const std::vector<Layer>& of_b) {
  ADJOIN_RETURN_IF_ERROR(CheckKeeps(node, builder, a, /*shape=*/false));
  ADJOIN_RETURN_IF_ERROR(CheckKeeps(node, builder, b, /*shape=*/false));
  ADJOIN_RETURN_IF_ERROR(CheckBroadcast(node, builder, a, b));
  ADJOIN_ASSIGN_OR_RETURN(AlignedInputs aligned, builder.Align({a, b}));
  for (const Layer& function : of_b) {
    ADJOIN_ASSIGN_OR_RETURN(aligned.sources[1], builder.Append(node, function, {aligned.sources[1]}));
  }
  Layer layer;
  if (add) {
    layer.mutable_add();
  } else {
    layer.mutable_multiply();
  }
  ADJOIN_ASSIGN_OR_RETURN(const std::string made, builder.Append(node, std::move(layer), aligned.sources));
  return builder.SetResult(node, made, aligned);
}

// x combined with a parameter or a constant, by "add" or "multiply".
absl::Status AddKnown(const OpNode& node, LayerBuilder& builder, const std::string& x, const Operand& known,
                      const std::string& combine) {
  if (known.kind == Operand::Kind::kConstant) {
    ADJOIN_RETURN_IF_ERROR(CheckKeeps(node, builder, x, /*shape=*/true));
    ADJOIN_ASSIGN_OR_RETURN(ConstantTensor constant, builder.ConstantOf(known.value));
    return builder.AddConstant(node, x, std::move(constant), combine);
  }
  if (builder.IsOfParameters(x)) return Unsupported("it combines parameters before a layer's output");
  if (!builder.SameType(x, known.value)) return Unsupported("its two arguments are of different types");
  ADJOIN_ASSIGN_OR_RETURN(const std::vector<int64_t> from, builder.Shape(x));
  ADJOIN_ASSIGN_OR_RETURN(const std::vector<int64_t> to, builder.Shape(node.outputs.empty() ? "" : node.outputs[0]));
  if (from == to) return builder.AddParameter(node, x, known.value, combine);
  // The parameter is the larger one.
  ADJOIN_ASSIGN_OR_RETURN(const std::string source, builder.SourceOf(x));
  ADJOIN_ASSIGN_OR_RETURN(const std::string other, builder.SourceOf(known.value, source));
  Layer layer;
  if (combine == "add") {
    layer.mutable_add();
  } else {
    layer.mutable_multiply();
  }
  ADJOIN_ASSIGN_OR_RETURN(const std::string made, builder.Append(node, std::move(layer), {source, other}));
  return builder.SetResult(node, made, AlignedInputs());
}

// x + factor * y
absl::Status AddSum(const OpNode& node, LayerBuilder& builder, const Operand& x, const Operand& y, double factor) {
  using Kind = Operand::Kind;
  if (x.kind == Kind::kLayer && y.kind == Kind::kNumber) {
    return AddScaled(node, builder, x.value, 1, factor * y.number);
  }
  if (x.kind == Kind::kNumber && y.kind == Kind::kLayer) return AddScaled(node, builder, y.value, factor, x.number);
  if (x.kind == Kind::kLayer && y.kind == Kind::kLayer) {
    std::vector<Layer> of_y;
    if (factor == -1) of_y.push_back(FunctionOf("neg"));
    if (factor != 1 && factor != -1) of_y.push_back(FunctionOf("mul", {factor}));
    return AddJoined(node, builder, /*add=*/true, x.value, y.value, of_y);
  }
  if (x.kind == Kind::kLayer && factor == 1) return AddKnown(node, builder, x.value, y, "add");
  if (y.kind == Kind::kLayer && factor == 1) return AddKnown(node, builder, y.value, x, "add");
  if (y.kind == Kind::kLayer && factor == -1) {
    return Unsupported(
        "it subtracts a layer's output from a parameter or constant; right would be the parameter added "
        "to what is negated");
  }
  if (x.kind == Kind::kLayer && y.kind == Kind::kConstant) {
    ADJOIN_RETURN_IF_ERROR(CheckKeeps(node, builder, x.value, /*shape=*/true));
    ADJOIN_ASSIGN_OR_RETURN(ConstantTensor constant, builder.ConstantOf(y.value));
    for (double& element : constant.reals) element *= factor;
    for (int64_t element : constant.wholes) constant.reals.push_back(factor * static_cast<double>(element));
    if (!constant.wholes.empty()) constant.dtype = DType::kFloat64;
    constant.wholes.clear();
    return builder.AddConstant(node, x.value, std::move(constant), "add");
  }
  if (x.kind == Kind::kLayer) return Unsupported("it subtracts a parameter; right would be one that is added");
  return Unsupported("it combines parameters before a layer's output; right would be one parameter");
}

absl::Status SumOf(const OpNode& node, LayerBuilder& builder, double sign, bool reversed) {
  ADJOIN_ASSIGN_OR_RETURN(const Operand a, OperandOf(node, "self", builder));
  ADJOIN_ASSIGN_OR_RETURN(const Operand b, OperandOf(node, "other", builder));
  const double factor = sign * node.Float("alpha", 1);
  return reversed ? AddSum(node, builder, b, a, factor) : AddSum(node, builder, a, b, factor);
}
absl::Status Add(const OpNode& node, LayerBuilder& builder) { return SumOf(node, builder, 1, false); }
absl::Status Subtract(const OpNode& node, LayerBuilder& builder) { return SumOf(node, builder, -1, false); }
absl::Status SubtractReversed(const OpNode& node, LayerBuilder& builder) { return SumOf(node, builder, -1, true); }

absl::Status Multiply(const OpNode& node, LayerBuilder& builder) {
  using Kind = Operand::Kind;
  ADJOIN_ASSIGN_OR_RETURN(Operand a, OperandOf(node, "self", builder));
  ADJOIN_ASSIGN_OR_RETURN(Operand b, OperandOf(node, "other", builder));
  if (a.kind != Kind::kLayer) std::swap(a, b);
  if (a.kind != Kind::kLayer) return Unsupported("it combines parameters before a layer's output");
  if (b.kind == Kind::kNumber) return AddScaled(node, builder, a.value, b.number, 0);
  if (b.kind == Kind::kLayer) return AddJoined(node, builder, /*add=*/false, a.value, b.value, {});
  return AddKnown(node, builder, a.value, b, "multiply");
}

absl::Status Divide(const OpNode& node, LayerBuilder& builder) {
  using Kind = Operand::Kind;
  if (node.Has("rounding_mode")) return Unsupported("it rounds its result, which no layer does");
  ADJOIN_ASSIGN_OR_RETURN(const Operand a, OperandOf(node, "self", builder));
  ADJOIN_ASSIGN_OR_RETURN(const Operand b, OperandOf(node, "other", builder));
  if (a.kind == Kind::kLayer && b.kind == Kind::kNumber) {
    if (b.number == 0) return Unsupported("it divides by 0");
    return AddScaled(node, builder, a.value, 1 / b.number, 0);
  }
  if (a.kind == Kind::kLayer && b.kind == Kind::kLayer) {
    return AddJoined(node, builder, /*add=*/false, a.value, b.value, {FunctionOf("reciprocal")});
  }
  if (a.kind == Kind::kNumber && b.kind == Kind::kLayer) {
    std::vector<Layer> functions = {FunctionOf("reciprocal")};
    if (a.number != 1) functions.push_back(FunctionOf("mul", {a.number}));
    return AddFunctions(node, builder, b.value, functions);
  }
  if (a.kind == Kind::kLayer && b.kind == Kind::kConstant) {
    ADJOIN_RETURN_IF_ERROR(CheckKeeps(node, builder, a.value, /*shape=*/true));
    ADJOIN_ASSIGN_OR_RETURN(ConstantTensor constant, builder.ConstantOf(b.value));
    std::vector<double> inverse;
    for (int64_t i = 0; i < constant.Elements(); ++i) inverse.push_back(1 / constant.At(i));
    constant.dtype = DType::kFloat64;
    constant.reals = std::move(inverse);
    constant.wholes.clear();
    return builder.AddConstant(node, a.value, std::move(constant), "multiply");
  }
  return Unsupported("it divides by a parameter, or divides one; right would be a parameter that is multiplied");
}

absl::Status Power(const OpNode& node, LayerBuilder& builder) {
  using Kind = Operand::Kind;
  ADJOIN_ASSIGN_OR_RETURN(const Operand base, OperandOf(node, "self", builder));
  ADJOIN_ASSIGN_OR_RETURN(const Operand exponent, OperandOf(node, "exponent", builder));
  if (base.kind == Kind::kLayer && exponent.kind == Kind::kNumber) {
    const double e = exponent.number;
    if (e == 1) return AddScaled(node, builder, base.value, 1, 0);
    return AddFunctions(node, builder, base.value,
                        {e == 2      ? FunctionOf("square")
                         : e == 0.5  ? FunctionOf("sqrt")
                         : e == -0.5 ? FunctionOf("rsqrt")
                         : e == -1   ? FunctionOf("reciprocal")
                                     : FunctionOf("pow", {e})});
  }
  if (base.kind == Kind::kNumber && exponent.kind == Kind::kLayer && base.number > 0) {
    return AddFunctions(node, builder, exponent.value, {FunctionOf("mul", {std::log(base.number)}), FunctionOf("exp")});
  }
  return Unsupported("it is not a power of a number, or of a positive number; right would be one of the two");
}

absl::Status Clamp(const OpNode& node, LayerBuilder& builder) {
  std::optional<double> limits[2];
  constexpr const char* kNames[] = {"min", "max"};
  for (int i : {0, 1}) {
    if (!node.Has(kNames[i])) continue;
    ADJOIN_ASSIGN_OR_RETURN(const Operand limit, OperandOf(node, kNames[i], builder));
    if (limit.kind != Operand::Kind::kNumber) return Unsupported("its limits are not numbers");
    const double infinite = i == 0 ? -INFINITY : INFINITY;
    if (limit.number != infinite) limits[i] = limit.number;
  }
  const std::string value = node.Tensor("self");
  if (limits[0].has_value() && limits[1].has_value()) {
    if (!(*limits[0] <= *limits[1])) return Unsupported("its limits are not two numbers, the smaller one first");
    return AddFunctions(node, builder, value, {FunctionOf("clamp", {*limits[0], *limits[1]})});
  }
  if (limits[0].has_value()) return AddFunctions(node, builder, value, {FunctionOf("clamp_min", {*limits[0]})});
  if (limits[1].has_value()) return AddFunctions(node, builder, value, {FunctionOf("clamp_max", {*limits[1]})});
  return Unsupported("it has no limit that is a finite number");
}

// Elements where `mask`, known at import, is true become a number.
absl::Status AddMasked(const OpNode& node, LayerBuilder& builder, const std::string& x, ConstantTensor mask,
                       double number) {
  ADJOIN_RETURN_IF_ERROR(CheckKeeps(node, builder, x, /*shape=*/true));
  ADJOIN_RETURN_IF_ERROR(builder.CheckReplaceable(x, number));
  ConstantTensor keeps = mask;
  keeps.dtype = mask.dtype = DType::kFloat64;
  keeps.reals.clear();
  mask.reals.clear();
  for (int64_t element : keeps.wholes) {
    keeps.reals.push_back(element != 0 ? 0 : 1);
    mask.reals.push_back(element != 0 ? number : 0);
  }
  keeps.wholes.clear();
  mask.wholes.clear();
  // What is added is enough where it outweighs all else.
  if (std::isinf(number)) return builder.AddConstant(node, x, std::move(mask), "add");
  if (!std::isfinite(number)) return Unsupported("it writes a number that is no number");
  if (number == 0) return builder.AddConstant(node, x, std::move(keeps), "multiply");
  OpNode first = node;
  first.in_place = false;
  first.outputs = {absl::StrCat(node.outputs[0], " before it is filled")};
  ADJOIN_RETURN_IF_ERROR(builder.AddConstant(first, x, std::move(keeps), "multiply"));
  return builder.AddConstant(node, first.outputs[0], std::move(mask), "add");
}

absl::StatusOr<ConstantTensor> MaskOf(const LayerBuilder& builder, const std::string& value) {
  if (!builder.IsConstant(value)) {
    return Unsupported("its mask is computed of the input, or is a parameter; right would be one that is fixed");
  }
  ADJOIN_ASSIGN_OR_RETURN(ConstantTensor mask, builder.ConstantOf(value));
  if (mask.dtype != DType::kBool) return Unsupported("its mask is not of truth values");
  return mask;
}

absl::Status MaskedFill(const OpNode& node, LayerBuilder& builder) {
  ADJOIN_ASSIGN_OR_RETURN(ConstantTensor mask, MaskOf(builder, node.Tensor("mask")));
  ADJOIN_ASSIGN_OR_RETURN(const Operand number, OperandOf(node, "value", builder));
  if (number.kind != Operand::Kind::kNumber) return Unsupported("what it writes is no number");
  return AddMasked(node, builder, node.Tensor("self"), std::move(mask), number.number);
}

// x[:, 2:4] = number
absl::Status Filled(const OpNode& node, LayerBuilder& builder) {
  if (!node.in_place || node.outputs.empty()) return Unsupported("it makes a constant in the shape of a tensor");
  Operand number;
  if (node.op == "fill") {
    ADJOIN_ASSIGN_OR_RETURN(number, OperandOf(node, "value", builder));
  }
  if (number.kind != Operand::Kind::kNumber || !std::isfinite(number.number)) {
    return Unsupported("what it writes is no finite number");
  }
  return builder.FillSlice(node, number.number);
}

absl::Status Where(const OpNode& node, LayerBuilder& builder) {
  ADJOIN_ASSIGN_OR_RETURN(ConstantTensor mask, MaskOf(builder, node.Tensor("condition")));
  ADJOIN_ASSIGN_OR_RETURN(const Operand a, OperandOf(node, "self", builder));
  ADJOIN_ASSIGN_OR_RETURN(const Operand b, OperandOf(node, "other", builder));
  if (a.kind == Operand::Kind::kNumber && b.kind == Operand::Kind::kLayer) {
    return AddMasked(node, builder, b.value, std::move(mask), a.number);
  }
  if (b.kind == Operand::Kind::kNumber && a.kind == Operand::Kind::kLayer) {
    for (int64_t& element : mask.wholes) element = element == 0;
    return AddMasked(node, builder, a.value, std::move(mask), b.number);
  }
  return Unsupported("it chooses between two tensors; right would be a number as one of them");
}

}  // namespace

const OpRules& ArithmeticRules() {
  static const auto* rules = new OpRules{
      {"add", Add},      {"clamp", Clamp},       {"clamp_max", Clamp},    {"clamp_min", Clamp},
      {"div", Divide},   {"divide", Divide},     {"fill", Filled},        {"masked_fill", MaskedFill},
      {"mul", Multiply}, {"multiply", Multiply}, {"pow", Power},          {"rsub", SubtractReversed},
      {"sub", Subtract}, {"subtract", Subtract}, {"true_divide", Divide}, {"where", Where},
      {"zero", Filled},
  };
  return *rules;
}

}  // namespace adjoin
