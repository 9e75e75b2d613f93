// What the expressions of a traced method are: numbers, tensors by their names in the graph, lists, modules.
//
//   ScriptValue::Int(3);
//   ScriptValue::Tensor("x");
//   ScriptValue::KnownTensor(3);      // a tensor without dims of which the number is known, as sizes are in traces
#ifndef ADJOIN_IMPORTER_TORCHSCRIPT_SCRIPT_VALUE_H_
#define ADJOIN_IMPORTER_TORCHSCRIPT_SCRIPT_VALUE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "importer/graph/op_graph.h"
#include "importer/torchscript/aten_schemas.h"

namespace adjoin {

inline constexpr size_t kTextOfOne = 64;  // bytes of text that count as one value

struct ScriptValue {
  // kComputed: what is known only when the model runs.
  enum class Kind { kNone, kBool, kInt, kFloat, kText, kTensor, kList, kTuple, kDict, kModule, kOther, kComputed };
  Kind kind = Kind::kNone;
  int64_t number = 0;  // kBool, kInt
  double real = 0;     // kFloat
  // kText; of kTensor its value in the graph, where "" is a known number that is not there yet.
  std::string text;
  bool known = false;              // kTensor: its number is: `number` where `whole`, else `real`
  bool whole = false;              // of a known number
  std::vector<ScriptValue> items;  // kList, kTuple; of kDict keys and values in turn
  size_t object = 0;               // kModule: its index in the archive's values
  size_t size = 1;                 // how many values it is, with those within; a long text counts for several

  static ScriptValue Of(Kind kind) {
    ScriptValue value;
    value.kind = kind;
    return value;
  }
  static ScriptValue Int(int64_t number) {
    ScriptValue value = Of(Kind::kInt);
    value.number = number;
    return value;
  }
  static ScriptValue Float(double real) {
    ScriptValue value = Of(Kind::kFloat);
    value.real = real;
    return value;
  }
  static ScriptValue Text(std::string text) {
    ScriptValue value = Of(Kind::kText);
    value.SetText(std::move(text));
    return value;
  }
  static ScriptValue Tensor(std::string name) {
    ScriptValue value = Of(Kind::kTensor);
    value.SetText(std::move(name));
    return value;
  }
  static ScriptValue KnownTensor(int64_t number) {
    ScriptValue value = Of(Kind::kTensor);
    value.number = number;
    value.known = value.whole = true;
    return value;
  }
  static ScriptValue KnownTensor(double real) {
    ScriptValue value = Of(Kind::kTensor);
    value.real = real;
    value.known = true;
    return value;
  }

  bool IsNumber() const { return kind == Kind::kInt || kind == Kind::kFloat || kind == Kind::kBool; }
  // Whether a number, or a known tensor, is a whole one.
  bool IsWhole() const { return kind == Kind::kTensor ? whole : kind != Kind::kFloat; }
  double AsReal() const { return IsWhole() ? static_cast<double>(number) : real; }
  void SetText(std::string new_text) {
    text = std::move(new_text);
    size += text.size() / kTextOfOne;
  }
  void Append(ScriptValue item) {
    size += item.size;
    items.push_back(std::move(item));
  }
};

// The operator's result where all its arguments are numbers, or known tensors; none where it is not known. Division,
// rounding and overflow are those of PyTorch: whole numbers of 64 bits, else double.
std::optional<ScriptValue> FoldNumbers(const std::string& op, const std::vector<ScriptValue>& arguments,
                                       const std::string& rounding_mode);

// A number, or a known tensor, as int(x), float(x) or bool(x) makes it; kComputed where that is not known.
ScriptValue Converted(const std::string& name, const ScriptValue& value);
// A number as a tensor without dims.
ScriptValue NumberAsTensor(const ScriptValue& value);

// Whether the values are those of the schema: those by place, then those by name. `tensors`: a known tensor may also
// stand for a tensor, not only for a number.
bool Fits(const AtenSchema& schema, const std::vector<ScriptValue>& places,
          const std::vector<std::pair<std::string, ScriptValue>>& names, bool tensors);

// A value as an argument of that type. A known tensor where the type is a tensor must be in the graph.
OpArgument ArgumentOf(const ScriptValue& value, const std::string& type);

}  // namespace adjoin

#endif  // ADJOIN_IMPORTER_TORCHSCRIPT_SCRIPT_VALUE_H_
