#include "importer/layers/layer_elements.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <set>

#include "layers/pointwise/activation_functions.h"

namespace adjoin {
namespace {

using Numbers = LayerElements::Kind;
using Sign = LayerElements::Sign;

// The least sign of a function's results. What may become 0 by rounding is not positive.
Sign SignOfFunction(const Activation& function, Sign sign) {
  static const auto* const not_negative =
      new std::set<std::string>{"abs",         "acos", "acosh", "cosh",    "erfc",     "exp",   "exp2",
                                "hardsigmoid", "relu", "relu6", "sigmoid", "softplus", "square"};
  const std::string& fn = function.fn();
  const double argument = function.arg_size() > 0 ? function.arg(0) : 0;
  if (fn == "add" && argument >= 0) return argument > 0 && sign != Sign::kAny ? Sign::kPositive : sign;
  if (fn == "clamp_min" || fn == "clamp") {
    return argument > 0 ? Sign::kPositive : argument == 0 ? Sign::kNotNegative : Sign::kAny;
  }
  if (fn == "sqrt" || fn == "root") return sign == Sign::kPositive ? sign : Sign::kNotNegative;
  if (fn == "abs" && sign == Sign::kPositive) return sign;
  if (fn == "pow" && std::fmod(argument, 2) == 0) return Sign::kNotNegative;
  if ((fn == "mul" && argument >= 0) || fn == "pow" || fn == "reciprocal" || fn == "rsqrt") {
    return std::min(sign, Sign::kNotNegative);
  }
  return not_negative->count(fn) > 0 ? Sign::kNotNegative : Sign::kAny;
}

// Whether a function of finite elements of this sign has a finite value for each.
bool IsFinite(const Activation& function, Sign sign) {
  const std::string& fn = function.fn();
  if (fn == "log1p" || fn == "sqrt" || fn == "root") return sign != Sign::kAny;
  if (fn != "pow") {
    const ActivationDomain domain = DomainOf(fn);
    return domain == ActivationDomain::kAll || (domain == ActivationDomain::kPositive && sign == Sign::kPositive);
  }
  const double exponent = function.arg_size() > 0 ? function.arg(0) : 0;
  if (exponent < 0) return sign == Sign::kPositive;
  return std::floor(exponent) == exponent || sign != Sign::kAny;
}

}  // namespace

LayerElements ElementsOf(const ConstantTensor& constant) {
  LayerElements elements;
  for (double element : constant.reals) {
    if (std::isfinite(element)) continue;
    elements.kind = std::max(elements.kind, element == -INFINITY ? Numbers::kMinusInfinity : Numbers::kUnknown);
  }
  return elements;
}

LayerElements ElementsOf(const Layer& layer, const std::vector<LayerElements>& inputs, const LayerElements& weight) {
  LayerElements worst;
  Sign least = inputs.empty() ? Sign::kAny : Sign::kPositive, most = Sign::kAny;
  for (const LayerElements& input : inputs) {
    if (input.kind > worst.kind) worst = input;
    least = std::min(least, input.sign);
    most = std::max(most, input.sign);
  }
  worst.sign = Sign::kAny;
  const auto begins_here = [&] { return LayerElements{Numbers::kUnknown, Sign::kAny, layer.name()}; };
  bool keeps_minus_infinity = false;
  switch (layer.op_case()) {
    case Layer::kActivation: {
      const Activation& function = layer.activation();
      if (worst.kind == Numbers::kFinite && !IsFinite(function, least)) return begins_here();
      worst.sign = SignOfFunction(function, least);
      keeps_minus_infinity =
          function.fn() == "add" || (function.fn() == "mul" && function.arg_size() > 0 && function.arg(0) > 0);
      break;
    }
    case Layer::kAdd:
      worst.sign = least == Sign::kAny ? least : most;
      keeps_minus_infinity = true;
      break;
    case Layer::kMultiply: {
      const bool is_square = layer.input_size() == 2 && layer.input(0) == layer.input(1);
      worst.sign = is_square ? Sign::kNotNegative : std::min(least, Sign::kNotNegative);
      break;
    }
    case Layer::kParameter: {
      const std::string& combine = layer.parameter().combine();
      if (combine == "expand" || combine == "value") worst = LayerElements();
      if (weight.kind > worst.kind) worst = {weight.kind, Sign::kAny, layer.name()};
      keeps_minus_infinity = combine != "multiply";
      break;
    }
    case Layer::kNorm:
      if (layer.norm().has_eps() && layer.norm().eps() == 0 && worst.kind == Numbers::kFinite) return begins_here();
      break;
    case Layer::kReduce: worst.sign = layer.reduce().kind() == "var" ? Sign::kNotNegative : least; break;
    case Layer::kReshape:
    case Layer::kFlatten:
    case Layer::kPermute:
    case Layer::kCrop:
    case Layer::kIndexSelect:
    case Layer::kConcat:
    case Layer::kExpand:
    case Layer::kRepeat:
    case Layer::kRoll:
    case Layer::kFlip:
      worst.sign = least;
      keeps_minus_infinity = true;
      break;
    case Layer::kCustom:
      if (worst.kind == Numbers::kFinite) return begins_here();
      break;
    default: break;
  }
  if (worst.kind == Numbers::kMinusInfinity && !keeps_minus_infinity) worst.kind = Numbers::kUnknown;
  return worst;
}

}  // namespace adjoin
