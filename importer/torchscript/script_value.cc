#include "importer/torchscript/script_value.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

namespace adjoin {
namespace {

using Kind = ScriptValue::Kind;

int64_t FloorDivided(int64_t a, int64_t b) { return a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0); }

std::optional<ScriptValue> FoldWhole(const std::string& op, int64_t a, int64_t b, const std::string& rounding) {
  int64_t result = 0;
  if (op == "add" && !__builtin_add_overflow(a, b, &result)) return ScriptValue::KnownTensor(result);
  if (op == "sub" && !__builtin_sub_overflow(a, b, &result)) return ScriptValue::KnownTensor(result);
  if (op == "rsub" && !__builtin_sub_overflow(b, a, &result)) return ScriptValue::KnownTensor(result);
  if (op == "mul" && !__builtin_mul_overflow(a, b, &result)) return ScriptValue::KnownTensor(result);
  if (op == "maximum" || op == "max") return ScriptValue::KnownTensor(std::max(a, b));
  if (op == "minimum" || op == "min") return ScriptValue::KnownTensor(std::min(a, b));
  if (b == 0 || b == -1) return std::nullopt;  // -1 of the smallest number is none
  const bool divides = op == "div" || op == "divide" || op == "true_divide";
  if (op == "floor_divide" || (divides && rounding == "floor")) return ScriptValue::KnownTensor(FloorDivided(a, b));
  if (divides && rounding == "trunc") return ScriptValue::KnownTensor(a / b);
  if (divides) return ScriptValue::KnownTensor(static_cast<double>(a) / static_cast<double>(b));
  if (op == "remainder") return ScriptValue::KnownTensor(a % b != 0 && (a % b < 0) != (b < 0) ? a % b + b : a % b);
  return std::nullopt;
}

std::optional<ScriptValue> FoldReal(const std::string& op, double a, double b, const std::string& rounding) {
  if (op == "add") return ScriptValue::KnownTensor(a + b);
  if (op == "sub") return ScriptValue::KnownTensor(a - b);
  if (op == "rsub") return ScriptValue::KnownTensor(b - a);
  if (op == "mul") return ScriptValue::KnownTensor(a * b);
  if (op == "pow") return ScriptValue::KnownTensor(std::pow(a, b));
  const bool divides = op == "div" || op == "divide" || op == "true_divide";
  if (op == "floor_divide" || (divides && rounding == "floor")) return ScriptValue::KnownTensor(std::floor(a / b));
  if (divides && rounding == "trunc") return ScriptValue::KnownTensor(std::trunc(a / b));
  if (divides) return ScriptValue::KnownTensor(a / b);
  return std::nullopt;
}

std::optional<ScriptValue> FoldOne(const std::string& op, const ScriptValue& value) {
  if (op == "clone" || op == "contiguous" || op == "detach") {
    ScriptValue same = value;
    same.kind = Kind::kTensor;
    same.known = true;
    same.whole = value.IsWhole();
    return same;
  }
  const double real = value.AsReal();
  if (op == "sqrt") return ScriptValue::KnownTensor(std::sqrt(real));
  if (op == "neg" && value.IsWhole()) return FoldWhole("rsub", value.number, 0, "");
  if (op == "neg") return ScriptValue::KnownTensor(-real);
  if (op != "ceil" && op != "floor" && op != "trunc") return std::nullopt;
  if (value.IsWhole()) return ScriptValue::KnownTensor(value.number);
  return ScriptValue::KnownTensor(op == "ceil" ? std::ceil(real) : op == "floor" ? std::floor(real) : std::trunc(real));
}

bool IsTensor(const ScriptValue& value, bool tensors) {
  return value.kind == Kind::kTensor && (tensors || !value.known);
}

bool IsOfType(const ScriptValue& value, absl::string_view type, bool tensors) {
  if (absl::ConsumeSuffix(&type, "?") && value.kind == Kind::kNone) return true;
  const size_t bracket = type.find('[');
  if (bracket != absl::string_view::npos) {
    const absl::string_view item = type.substr(0, bracket);
    const bool for_all = !absl::EndsWith(type, "[]") && value.kind != Kind::kList;  // one number, of "int[2]"
    if (for_all) return IsOfType(value, item, tensors);
    return value.kind == Kind::kList && std::all_of(value.items.begin(), value.items.end(),
                                                    [&](const auto& one) { return IsOfType(one, item, tensors); });
  }
  if (type == "Tensor") return IsTensor(value, tensors);
  if (type == "str") return value.kind == Kind::kText;
  if (type == "bool") return value.kind == Kind::kBool || value.kind == Kind::kComputed;
  if (type == "Scalar") {
    return value.IsNumber() || (value.kind == Kind::kTensor && value.known) || value.kind == Kind::kComputed;
  }
  if (type == "float") {
    return value.kind == Kind::kFloat || value.kind == Kind::kInt || value.kind == Kind::kComputed;
  }
  if (type == "int") {
    return value.kind == Kind::kInt || value.kind == Kind::kComputed ||
           (value.kind == Kind::kTensor && value.known && value.whole);
  }
  // ScalarType, Layout, Device, MemoryFormat, Generator
  return value.kind == Kind::kInt || value.kind == Kind::kOther || value.kind == Kind::kComputed;
}

void AddNumber(const ScriptValue& value, OpArgument& argument) {
  const bool whole = value.IsWhole();
  const bool real = !whole || argument.kind == OpArgument::Kind::kFloats;
  if (value.kind == Kind::kComputed || (!value.IsNumber() && !value.known) ||
      argument.kind == OpArgument::Kind::kOther) {
    argument.kind = OpArgument::Kind::kOther;
  } else if (real) {
    argument.floats.insert(argument.floats.end(), argument.ints.begin(), argument.ints.end());
    argument.ints.clear();
    argument.kind = OpArgument::Kind::kFloats;
    argument.floats.push_back(value.AsReal());
  } else {
    argument.kind = value.kind == Kind::kBool ? OpArgument::Kind::kBool : OpArgument::Kind::kInts;
    argument.ints.push_back(value.number);
  }
}

}  // namespace

std::optional<ScriptValue> FoldNumbers(const std::string& op, const std::vector<ScriptValue>& arguments,
                                       const std::string& rounding_mode) {
  if (arguments.size() == 1) return FoldOne(op, arguments[0]);
  // A third one is the factor of the second.
  const bool scaled = arguments.size() == 3 && !(arguments[2].IsWhole() && arguments[2].number == 1);
  if (arguments.size() < 2 || arguments.size() > 3 || scaled) return std::nullopt;
  const ScriptValue &a = arguments[0], &b = arguments[1];
  if (a.IsWhole() && b.IsWhole()) return FoldWhole(op, a.number, b.number, rounding_mode);
  return FoldReal(op, a.AsReal(), b.AsReal(), rounding_mode);
}

ScriptValue Converted(const std::string& name, const ScriptValue& value) {
  if (!value.IsNumber() && !value.known) return ScriptValue::Of(Kind::kComputed);
  if (name == "float") return ScriptValue::Float(value.AsReal());
  if (name == "bool") {
    ScriptValue truth = ScriptValue::Of(Kind::kBool);
    truth.number = value.AsReal() != 0;
    return truth;
  }
  if (value.IsWhole()) return ScriptValue::Int(value.number);
  if (!(std::abs(value.real) < 9e18)) return ScriptValue::Of(Kind::kComputed);
  return ScriptValue::Int(static_cast<int64_t>(value.real));
}

ScriptValue NumberAsTensor(const ScriptValue& value) {
  if (!value.IsNumber()) return ScriptValue::Of(Kind::kComputed);
  return value.IsWhole() ? ScriptValue::KnownTensor(value.number) : ScriptValue::KnownTensor(value.real);
}

bool Fits(const AtenSchema& schema, const std::vector<ScriptValue>& places,
          const std::vector<std::pair<std::string, ScriptValue>>& names, bool tensors) {
  if (places.size() > schema.arguments.size()) return false;
  size_t taken = 0;
  for (size_t i = 0; i < schema.arguments.size(); ++i) {
    const AtenArgument& argument = schema.arguments[i];
    const auto named = std::find_if(names.begin(), names.end(),
                                    [&](const auto& candidate) { return candidate.first == argument.name; });
    const ScriptValue* value = i < places.size() ? &places[i] : named != names.end() ? &named->second : nullptr;
    if (i < places.size() && argument.keyword_only) return false;
    if (i >= places.size() && named != names.end()) ++taken;
    if (value == nullptr ? !argument.has_default : !IsOfType(*value, argument.type, tensors)) return false;
  }
  return taken == names.size();
}

OpArgument ArgumentOf(const ScriptValue& value, const std::string& type) {
  OpArgument argument;
  const bool list = value.kind == Kind::kList || value.kind == Kind::kTuple;
  argument.list = list || absl::StrContains(type, "[");
  if (absl::StartsWith(type, "Tensor")) {
    if (value.kind == Kind::kNone) return argument;
    argument.kind = OpArgument::Kind::kTensors;
    for (const ScriptValue& item : list ? value.items : std::vector<ScriptValue>{value}) {
      argument.tensors.push_back(item.text);
    }
    return argument;
  }
  if (value.kind == Kind::kNone) return argument;
  if (value.kind == Kind::kText) {
    argument.kind = OpArgument::Kind::kText;
    argument.text = value.text;
    return argument;
  }
  if (!list) {
    AddNumber(value, argument);
    return argument;
  }
  argument.kind = OpArgument::Kind::kInts;
  for (const ScriptValue& item : value.items) AddNumber(item, argument);
  if (argument.kind == OpArgument::Kind::kOther) {
    argument.ints.clear();
    argument.floats.clear();
  }
  return argument;
}

}  // namespace adjoin
