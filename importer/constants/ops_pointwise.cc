// Functions of one element at a time: arithmetic, comparisons, logic, choices.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "importer/constants/constant_ops.h"

namespace adjoin {
namespace {

using Real1 = double (*)(double);
using Real2 = double (*)(double, double);
using Whole2 = int64_t (*)(int64_t, int64_t);

// Elements of an operand as PyTorch computes with them: broadcast, and rounded to the type.
absl::StatusOr<std::vector<double>> RealsOf(const ConstantCall& call, const ConstantOperand& operand, DType dtype,
                                            const std::vector<int64_t>& shape) {
  ADJOIN_ASSIGN_OR_RETURN(const ConstantView view, Broadcast(operand.view, shape));
  ADJOIN_ASSIGN_OR_RETURN(std::vector<double> values, call.workspace.Reals(view));
  // PyTorch multiplies tensors of 16 bits by numbers in float32, and adds numbers of their own type.
  const bool multiplies = operand.number && (call.node.op == "mul" || call.node.op == "div");
  const bool wider = multiplies && (dtype == DType::kFloat16 || dtype == DType::kBFloat16);
  for (double& value : values) value = RoundedTo(wider ? DType::kFloat32 : dtype, value);
  return values;
}
absl::StatusOr<std::vector<int64_t>> WholesOf(const ConstantCall& call, const ConstantOperand& operand, DType dtype,
                                              const std::vector<int64_t>& shape) {
  ADJOIN_ASSIGN_OR_RETURN(const ConstantView view, Broadcast(operand.view, shape));
  ADJOIN_ASSIGN_OR_RETURN(std::vector<int64_t> values, call.workspace.Wholes(view));
  for (int64_t& value : values) value = WrappedTo(dtype, value);
  return values;
}

// -- One argument.

ConstantResults Unary(const ConstantCall& call, Real1 function) {
  ADJOIN_ASSIGN_OR_RETURN(const DType dtype, call.Type());
  if (!IsFloatingPoint(dtype)) return NotComputed("its result is of ", ToString(dtype));
  ADJOIN_ASSIGN_OR_RETURN(const ConstantOperand input, call.Operand("self"));
  ADJOIN_ASSIGN_OR_RETURN(std::vector<double> values, RealsOf(call, input, dtype, input.view.shape));
  for (double& value : values) value = function(value);
  return OneResult(call.workspace.OfReals(dtype, input.view.shape, std::move(values)));
}

// The function of one tensor whose type stays: `whole` is that of whole numbers.
ConstantResults Kept(const ConstantCall& call, Real1 real, int64_t (*whole)(int64_t)) {
  ADJOIN_ASSIGN_OR_RETURN(const ConstantView input, call.Tensor("self"));
  if (input.real()) return Unary(call, real);
  if (input.dtype == DType::kBool && whole != nullptr) return NotComputed("its input is of bool");
  ADJOIN_ASSIGN_OR_RETURN(std::vector<int64_t> values, call.workspace.Wholes(input));
  for (int64_t& value : values) value = whole == nullptr ? value : whole(value);
  return OneResult(call.workspace.OfWholes(input.dtype, input.shape, std::move(values)));
}

int64_t Negative(int64_t a) { return static_cast<int64_t>(-static_cast<uint64_t>(a)); }
int64_t Size(int64_t a) { return a < 0 ? Negative(a) : a; }
double SignOf(double a) { return std::isnan(a) ? 0 : (a > 0) - (a < 0); }

ConstantResults Abs(const ConstantCall& call) {
  return Kept(
      call, [](double a) { return std::fabs(a); }, Size);
}
ConstantResults Neg(const ConstantCall& call) {
  return Kept(
      call, [](double a) { return -a; }, Negative);
}
ConstantResults Sign(const ConstantCall& call) {
  return Kept(call, SignOf, [](int64_t a) -> int64_t { return (a > 0) - (a < 0); });
}
ConstantResults Relu(const ConstantCall& call) {
  return Kept(
      call, [](double a) { return a < 0 ? 0 : a; }, [](int64_t a) { return a < 0 ? int64_t{0} : a; });
}
ConstantResults Square(const ConstantCall& call) {
  return Kept(
      call, [](double a) { return a * a; },
      [](int64_t a) { return static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(a)); });
}
ConstantResults Ceil(const ConstantCall& call) {
  return Kept(
      call, [](double a) { return std::ceil(a); }, nullptr);
}
ConstantResults Floor(const ConstantCall& call) {
  return Kept(
      call, [](double a) { return std::floor(a); }, nullptr);
}
ConstantResults Trunc(const ConstantCall& call) {
  return Kept(
      call, [](double a) { return std::trunc(a); }, nullptr);
}
ConstantResults Round(const ConstantCall& call) {
  if (call.node.Int("decimals", 0) != 0) return NotComputed("its decimals must be 0");
  return Kept(
      call, [](double a) { return std::nearbyint(a); }, nullptr);
}

template <Real1 kDouble>
ConstantResults Function(const ConstantCall& call) {
  return Unary(call, kDouble);
}
double Rsqrt(double a) { return 1 / std::sqrt(a); }
double Reciprocal(double a) { return 1 / a; }
double Sigmoid(double a) { return 1 / (1 + std::exp(-a)); }

ConstantResults Truth(const ConstantCall& call, bool (*function)(double)) {
  ADJOIN_ASSIGN_OR_RETURN(const ConstantView input, call.Tensor("self"));
  ADJOIN_ASSIGN_OR_RETURN(const std::vector<double> values, call.workspace.Reals(input));
  std::vector<int64_t> result;
  for (const double value : values) result.push_back(function(value));
  return OneResult(call.workspace.OfWholes(DType::kBool, input.shape, std::move(result)));
}
ConstantResults LogicalNot(const ConstantCall& call) {
  return Truth(call, [](double a) { return a == 0; });
}
ConstantResults IsNan(const ConstantCall& call) {
  return Truth(call, [](double a) { return std::isnan(a); });
}
ConstantResults IsInf(const ConstantCall& call) {
  return Truth(call, [](double a) { return std::isinf(a); });
}
ConstantResults BitwiseNot(const ConstantCall& call) {
  ADJOIN_ASSIGN_OR_RETURN(const ConstantView input, call.Tensor("self"));
  if (input.real()) return NotComputed("its input is of ", ToString(input.dtype));
  if (input.dtype == DType::kBool) return LogicalNot(call);
  return Kept(call, nullptr, [](int64_t a) { return ~a; });
}

// -- Two arguments.

// In the result's type.
ConstantResults Binary(const ConstantCall& call, const ConstantOperand& a, const ConstantOperand& b, Real2 real,
                       const std::function<absl::StatusOr<int64_t>(int64_t, int64_t)>& whole) {
  ADJOIN_ASSIGN_OR_RETURN(const DType dtype, call.Type());
  ADJOIN_ASSIGN_OR_RETURN(const std::vector<int64_t> shape, BroadcastShape(a.view.shape, b.view.shape));
  if (IsFloatingPoint(dtype)) {
    if (real == nullptr) return NotComputed("its result is of ", ToString(dtype));
    ADJOIN_ASSIGN_OR_RETURN(std::vector<double> values, RealsOf(call, a, dtype, shape));
    ADJOIN_ASSIGN_OR_RETURN(const std::vector<double> others, RealsOf(call, b, dtype, shape));
    for (size_t i = 0; i < values.size(); ++i) values[i] = real(values[i], others[i]);
    return OneResult(call.workspace.OfReals(dtype, shape, std::move(values)));
  }
  if (whole == nullptr) return NotComputed("its result is of ", ToString(dtype));
  ADJOIN_ASSIGN_OR_RETURN(std::vector<int64_t> values, WholesOf(call, a, dtype, shape));
  ADJOIN_ASSIGN_OR_RETURN(const std::vector<int64_t> others, WholesOf(call, b, dtype, shape));
  for (size_t i = 0; i < values.size(); ++i) {
    ADJOIN_ASSIGN_OR_RETURN(values[i], whole(values[i], others[i]));
  }
  return OneResult(call.workspace.OfWholes(dtype, shape, std::move(values)));
}

absl::StatusOr<std::pair<ConstantOperand, ConstantOperand>> Two(const ConstantCall& call,
                                                                const char* second = "other") {
  ADJOIN_ASSIGN_OR_RETURN(ConstantOperand a, call.Operand("self"));
  ADJOIN_ASSIGN_OR_RETURN(ConstantOperand b, call.Operand(second));
  return std::make_pair(std::move(a), std::move(b));
}

ConstantResults Arithmetic(const ConstantCall& call, Real2 real,
                           const std::function<absl::StatusOr<int64_t>(int64_t, int64_t)>& whole) {
  ADJOIN_ASSIGN_OR_RETURN(const auto two, Two(call));
  return Binary(call, two.first, two.second, real, whole);
}

int64_t Sum(int64_t a, int64_t b) { return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b)); }
int64_t Product(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
}

// a + factor * b, where the product is rounded first.
ConstantResults Scaled(const ConstantCall& call, const ConstantOperand& a, ConstantOperand b, double sign) {
  ADJOIN_ASSIGN_OR_RETURN(const DType dtype, call.Type());
  const double alpha = call.node.Float("alpha", 1) * sign;
  if (alpha != 1 && dtype == DType::kBool) return NotComputed("it subtracts truth values");
  if (alpha != 1) {
    if (IsFloatingPoint(dtype)) {
      ADJOIN_ASSIGN_OR_RETURN(std::vector<double> values, RealsOf(call, b, dtype, b.view.shape));
      for (double& value : values) value = value * RoundedTo(dtype, alpha);
      ADJOIN_ASSIGN_OR_RETURN(b.view, call.workspace.OfReals(dtype, b.view.shape, std::move(values)));
    } else {
      ADJOIN_ASSIGN_OR_RETURN(std::vector<int64_t> values, WholesOf(call, b, dtype, b.view.shape));
      for (int64_t& value : values) value = Product(value, Truncated(alpha));
      ADJOIN_ASSIGN_OR_RETURN(b.view, call.workspace.OfWholes(dtype, b.view.shape, std::move(values)));
    }
  }
  return Binary(
      call, a, b, [](double x, double y) { return x + y; }, Sum);
}

ConstantResults Add(const ConstantCall& call) {
  ADJOIN_ASSIGN_OR_RETURN(const auto two, Two(call));
  return Scaled(call, two.first, two.second, 1);
}
ConstantResults Sub(const ConstantCall& call) {
  ADJOIN_ASSIGN_OR_RETURN(const auto two, Two(call));
  return Scaled(call, two.first, two.second, -1);
}
ConstantResults Rsub(const ConstantCall& call) {
  ADJOIN_ASSIGN_OR_RETURN(const auto two, Two(call));
  return Scaled(call, two.second, two.first, -1);
}
ConstantResults Mul(const ConstantCall& call) {
  return Arithmetic(
      call, [](double a, double b) { return a * b; }, Product);
}

double FloorQuotient(double a, double b) {
  if (b == 0) return a / b;
  const double rest = std::fmod(a, b);
  double quotient = (a - rest) / b;
  if (rest != 0 && (b < 0) != (rest < 0)) quotient -= 1;
  if (quotient == 0) return std::copysign(0.0, a / b);
  const double floored = std::floor(quotient);
  return quotient - floored > 0.5 ? floored + 1 : floored;
}
double Remainder(double a, double b) {
  const double rest = std::fmod(a, b);
  return rest != 0 && (b < 0) != (rest < 0) ? rest + b : rest;
}
absl::StatusOr<int64_t> WholeQuotient(int64_t a, int64_t b) {
  if (b == 0) return NotComputed("it divides a whole number by 0");
  return b == -1 ? Negative(a) : a / b;
}
absl::StatusOr<int64_t> WholeFloorQuotient(int64_t a, int64_t b) {
  ADJOIN_ASSIGN_OR_RETURN(const int64_t quotient, WholeQuotient(a, b));
  return b != -1 && a % b != 0 && (a < 0) != (b < 0) ? quotient - 1 : quotient;
}
absl::StatusOr<int64_t> WholeRest(int64_t a, int64_t b) {
  if (b == 0) return NotComputed("it divides a whole number by 0");
  return b == -1 ? 0 : a % b;
}
absl::StatusOr<int64_t> WholeRemainder(int64_t a, int64_t b) {
  ADJOIN_ASSIGN_OR_RETURN(const int64_t rest, WholeRest(a, b));
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

ConstantResults FloorDivide(const ConstantCall& call) { return Arithmetic(call, FloorQuotient, WholeFloorQuotient); }
ConstantResults Div(const ConstantCall& call) {
  const std::string mode = call.node.Text("rounding_mode", "");
  if (mode == "floor") return FloorDivide(call);
  if (mode == "trunc")
    return Arithmetic(
        call, [](double a, double b) { return std::trunc(a / b); }, WholeQuotient);
  return Arithmetic(
      call, [](double a, double b) { return a / b; }, nullptr);
}
ConstantResults Mod(const ConstantCall& call) { return Arithmetic(call, Remainder, WholeRemainder); }
ConstantResults Fmod(const ConstantCall& call) {
  return Arithmetic(
      call, [](double a, double b) { return std::fmod(a, b); }, WholeRest);
}

absl::StatusOr<int64_t> WholePower(int64_t base, int64_t exponent) {
  if (exponent < 0) return NotComputed("it raises whole numbers to a negative power");
  int64_t result = 1;
  for (; exponent > 0; exponent >>= 1, base = Product(base, base)) {
    if ((exponent & 1) != 0) result = Product(result, base);
  }
  return result;
}
ConstantResults Pow(const ConstantCall& call) {
  ADJOIN_ASSIGN_OR_RETURN(const auto two, Two(call, "exponent"));
  return Binary(
      call, two.first, two.second, [](double a, double b) { return std::pow(a, b); }, WholePower);
}

double Larger(double a, double b) { return std::isnan(a) || a > b ? a : b; }
double Smaller(double a, double b) { return std::isnan(a) || a < b ? a : b; }
ConstantResults Maximum(const ConstantCall& call) {
  return Arithmetic(call, Larger, [](int64_t a, int64_t b) { return std::max(a, b); });
}
ConstantResults Minimum(const ConstantCall& call) {
  return Arithmetic(call, Smaller, [](int64_t a, int64_t b) { return std::min(a, b); });
}

ConstantResults Clamp(const ConstantCall& call) {
  ADJOIN_ASSIGN_OR_RETURN(ConstantOperand value, call.Operand("self"));
  for (const char* limit : {"min", "max"}) {
    if (!call.node.Has(limit)) continue;
    ADJOIN_ASSIGN_OR_RETURN(const ConstantOperand bound, call.Operand(limit));
    const bool least = limit[1] == 'i';
    ADJOIN_ASSIGN_OR_RETURN(const std::vector<ConstantView> result,
                            Binary(call, value, bound, least ? Larger : Smaller,
                                   [least](int64_t a, int64_t b) { return least ? std::max(a, b) : std::min(a, b); }));
    value = {result[0], false};
  }
  return std::vector<ConstantView>{value.view};
}

// -- Truth values of two arguments.

using Compare = bool (*)(int order);  // -1, 0, 1; 2: one of them is a NaN

ConstantResults Compared(const ConstantCall& call, Compare compare) {
  ADJOIN_ASSIGN_OR_RETURN(const auto two, Two(call));
  const auto& [a, b] = two;
  const DType dtype = PromotedType({a, b});
  ADJOIN_ASSIGN_OR_RETURN(const std::vector<int64_t> shape, BroadcastShape(a.view.shape, b.view.shape));
  std::vector<int64_t> result;
  if (IsFloatingPoint(dtype)) {
    ADJOIN_ASSIGN_OR_RETURN(const std::vector<double> first, RealsOf(call, a, dtype, shape));
    ADJOIN_ASSIGN_OR_RETURN(const std::vector<double> second, RealsOf(call, b, dtype, shape));
    for (size_t i = 0; i < first.size(); ++i) {
      const bool nan = std::isnan(first[i]) || std::isnan(second[i]);
      result.push_back(compare(nan ? 2 : (first[i] > second[i]) - (first[i] < second[i])));
    }
  } else {
    ADJOIN_ASSIGN_OR_RETURN(const std::vector<int64_t> first, WholesOf(call, a, dtype, shape));
    ADJOIN_ASSIGN_OR_RETURN(const std::vector<int64_t> second, WholesOf(call, b, dtype, shape));
    for (size_t i = 0; i < first.size(); ++i) {
      result.push_back(compare((first[i] > second[i]) - (first[i] < second[i])));
    }
  }
  return OneResult(call.workspace.OfWholes(DType::kBool, shape, std::move(result)));
}
ConstantResults Eq(const ConstantCall& call) {
  return Compared(call, [](int order) { return order == 0; });
}
ConstantResults Ne(const ConstantCall& call) {
  return Compared(call, [](int order) { return order != 0; });
}
ConstantResults Lt(const ConstantCall& call) {
  return Compared(call, [](int order) { return order == -1; });
}
ConstantResults Le(const ConstantCall& call) {
  return Compared(call, [](int order) { return order <= 0; });
}
ConstantResults Gt(const ConstantCall& call) {
  return Compared(call, [](int order) { return order == 1; });
}
ConstantResults Ge(const ConstantCall& call) {
  return Compared(call, [](int order) { return order == 0 || order == 1; });
}

ConstantResults Logical(const ConstantCall& call, bool (*function)(bool, bool)) {
  ADJOIN_ASSIGN_OR_RETURN(const auto two, Two(call));
  ADJOIN_ASSIGN_OR_RETURN(const std::vector<int64_t> shape,
                          BroadcastShape(two.first.view.shape, two.second.view.shape));
  ADJOIN_ASSIGN_OR_RETURN(const std::vector<double> first, RealsOf(call, two.first, DType::kFloat64, shape));
  ADJOIN_ASSIGN_OR_RETURN(const std::vector<double> second, RealsOf(call, two.second, DType::kFloat64, shape));
  std::vector<int64_t> result;
  for (size_t i = 0; i < first.size(); ++i) result.push_back(function(first[i] != 0, second[i] != 0));
  return OneResult(call.workspace.OfWholes(DType::kBool, shape, std::move(result)));
}
ConstantResults LogicalAnd(const ConstantCall& call) {
  return Logical(call, [](bool a, bool b) { return a && b; });
}
ConstantResults LogicalOr(const ConstantCall& call) {
  return Logical(call, [](bool a, bool b) { return a || b; });
}
ConstantResults LogicalXor(const ConstantCall& call) {
  return Logical(call, [](bool a, bool b) { return a != b; });
}

ConstantResults Bitwise(const ConstantCall& call, Whole2 function) { return Arithmetic(call, nullptr, function); }
ConstantResults BitwiseAnd(const ConstantCall& call) {
  return Bitwise(call, [](int64_t a, int64_t b) { return a & b; });
}
ConstantResults BitwiseOr(const ConstantCall& call) {
  return Bitwise(call, [](int64_t a, int64_t b) { return a | b; });
}
ConstantResults BitwiseXor(const ConstantCall& call) {
  return Bitwise(call, [](int64_t a, int64_t b) { return a ^ b; });
}

// -- Choices.

// Takes `b` where the mask is not 0, and `a` elsewhere.
ConstantResults Chosen(const ConstantCall& call, const ConstantView& mask, const ConstantOperand& a,
                       const ConstantOperand& b) {
  ADJOIN_ASSIGN_OR_RETURN(const DType dtype, call.Type());
  ADJOIN_ASSIGN_OR_RETURN(std::vector<int64_t> shape, BroadcastShape(a.view.shape, b.view.shape));
  ADJOIN_ASSIGN_OR_RETURN(shape, BroadcastShape(shape, mask.shape));
  ADJOIN_ASSIGN_OR_RETURN(const std::vector<int64_t> chosen, WholesOf(call, {mask, false}, DType::kBool, shape));
  if (IsFloatingPoint(dtype)) {
    ADJOIN_ASSIGN_OR_RETURN(std::vector<double> values, RealsOf(call, a, dtype, shape));
    ADJOIN_ASSIGN_OR_RETURN(const std::vector<double> others, RealsOf(call, b, dtype, shape));
    for (size_t i = 0; i < values.size(); ++i) values[i] = chosen[i] != 0 ? others[i] : values[i];
    return OneResult(call.workspace.OfReals(dtype, shape, std::move(values)));
  }
  ADJOIN_ASSIGN_OR_RETURN(std::vector<int64_t> values, WholesOf(call, a, dtype, shape));
  ADJOIN_ASSIGN_OR_RETURN(const std::vector<int64_t> others, WholesOf(call, b, dtype, shape));
  for (size_t i = 0; i < values.size(); ++i) values[i] = chosen[i] != 0 ? others[i] : values[i];
  return OneResult(call.workspace.OfWholes(dtype, shape, std::move(values)));
}

ConstantResults Where(const ConstantCall& call) {
  ADJOIN_ASSIGN_OR_RETURN(const ConstantView mask, call.Tensor("condition"));
  ADJOIN_ASSIGN_OR_RETURN(const auto two, Two(call));
  return Chosen(call, mask, two.second, two.first);
}
ConstantResults MaskedFill(const ConstantCall& call) {
  ADJOIN_ASSIGN_OR_RETURN(const ConstantView mask, call.Tensor("mask"));
  ADJOIN_ASSIGN_OR_RETURN(const auto two, Two(call, "value"));
  return Chosen(call, mask, two.first, two.second);
}

}  // namespace

const ConstantOps& PointwiseConstantOps() {
  static const auto* ops = new ConstantOps{
      {"__and__", {BitwiseAnd}},
      {"__or__", {BitwiseOr}},
      {"__xor__", {BitwiseXor}},
      {"abs", {Abs}},
      {"add", {Add}},
      {"bitwise_and", {BitwiseAnd}},
      {"bitwise_not", {BitwiseNot}},
      {"bitwise_or", {BitwiseOr}},
      {"bitwise_xor", {BitwiseXor}},
      {"ceil", {Ceil}},
      {"clamp", {Clamp}},
      {"clamp_max", {Clamp}},
      {"clamp_min", {Clamp}},
      {"cos", {Function<std::cos>}},
      {"div", {Div}},
      {"eq", {Eq}},
      {"exp", {Function<std::exp>}},
      {"exp2", {Function<std::exp2>}},
      {"expm1", {Function<std::expm1>}},
      {"floor", {Floor}},
      {"floor_divide", {FloorDivide}},
      {"fmod", {Fmod}},
      {"ge", {Ge}},
      {"gt", {Gt}},
      {"isinf", {IsInf}},
      {"isnan", {IsNan}},
      {"le", {Le}},
      {"log", {Function<std::log>}},
      {"log10", {Function<std::log10>}},
      {"log1p", {Function<std::log1p>}},
      {"log2", {Function<std::log2>}},
      {"logical_and", {LogicalAnd}},
      {"logical_not", {LogicalNot}},
      {"logical_or", {LogicalOr}},
      {"logical_xor", {LogicalXor}},
      {"lt", {Lt}},
      {"masked_fill", {MaskedFill}},
      {"maximum", {Maximum}},
      {"minimum", {Minimum}},
      {"mul", {Mul}},
      {"ne", {Ne}},
      {"neg", {Neg}},
      {"pow", {Pow}},
      {"reciprocal", {Function<Reciprocal>}},
      {"relu", {Relu}},
      {"remainder", {Mod}},
      {"round", {Round}},
      {"rsqrt", {Function<Rsqrt>}},
      {"rsub", {Rsub}},
      {"sigmoid", {Function<Sigmoid>}},
      {"sign", {Sign}},
      {"sin", {Function<std::sin>}},
      {"sqrt", {Function<std::sqrt>}},
      {"square", {Square}},
      {"sub", {Sub}},
      {"tan", {Function<std::tan>}},
      {"tanh", {Function<std::tanh>}},
      {"trunc", {Trunc}},
      {"where", {Where}},
  };
  return *ops;
}

}  // namespace adjoin
