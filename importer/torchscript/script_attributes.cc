#include "importer/torchscript/script_attributes.h"

#include <cstring>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "base/status_macros.h"
#include "importer/torchscript/script_graph.h"

namespace adjoin {
namespace {

constexpr size_t kMaxText = 1024;  // bytes of what may be an argument of an operator

using Kind = ScriptValue::Kind;

// The number of a constant without dims, where its type is one of 8, 4 or 1 bytes.
absl::Status ReadNumber(const ScriptArchive& archive, const std::string& name, ScriptValue& tensor) {
  const ArchivedTensor* archived = archive.Find(name);
  if (archived == nullptr) return absl::OkStatus();
  std::string bytes;
  ADJOIN_RETURN_IF_ERROR(archive.Read(*archived, [&](const char* data, int64_t count) {
    bytes.append(data, static_cast<size_t>(count));
    return absl::OkStatus();
  }));
  float single = 0;
  tensor.known = true;
  tensor.whole = archived->dtype == DType::kInt64;
  if (archived->dtype == DType::kInt64) {
    memcpy(&tensor.number, bytes.data(), sizeof(tensor.number));
  } else if (archived->dtype == DType::kFloat64) {
    memcpy(&tensor.real, bytes.data(), sizeof(tensor.real));
  } else if (archived->dtype == DType::kFloat32) {
    memcpy(&single, bytes.data(), sizeof(single));
    tensor.real = single;
  } else {
    tensor.known = false;
  }
  return absl::OkStatus();
}

ScriptValue Plain(const PickleValue& value) {
  switch (value.kind) {
    case PickleValue::Kind::kNone: return ScriptValue();
    case PickleValue::Kind::kInt: return ScriptValue::Int(value.number);
    case PickleValue::Kind::kFloat: return ScriptValue::Float(value.real);
    case PickleValue::Kind::kText:
      return value.text.size() <= kMaxText ? ScriptValue::Text(value.text) : ScriptValue::Of(Kind::kOther);
    case PickleValue::Kind::kBool: {
      ScriptValue truth = ScriptValue::Of(Kind::kBool);
      truth.number = value.number;
      return truth;
    }
    default: return ScriptValue::Of(Kind::kOther);
  }
}

ScriptValue Pickled(const ScriptArchive& archive, size_t index, int depth) {
  const std::vector<PickleValue>& values = archive.values();
  const PickleValue& value = values[index];
  if (value.kind == PickleValue::Kind::kTensor) {
    return ScriptValue::Tensor(ScriptGraph::ValueOfTensor(archive.names().at(index)));
  }
  if (value.kind == PickleValue::Kind::kObject) {
    ScriptValue module = ScriptValue::Of(Kind::kModule);
    module.object = index;
    return module;
  }
  const bool list = value.kind == PickleValue::Kind::kList || value.kind == PickleValue::Kind::kTuple;
  if (!list || depth > 0) return Plain(value);  // a list of lists is no argument of an operator
  ScriptValue made = ScriptValue::Of(value.kind == PickleValue::Kind::kList ? Kind::kList : Kind::kTuple);
  for (const size_t item : value.items) {
    const bool plain =
        values[item].kind != PickleValue::Kind::kTensor && values[item].kind != PickleValue::Kind::kObject;
    made.Append(plain ? Pickled(archive, item, depth + 1) : ScriptValue::Of(Kind::kOther));
  }
  return made;
}

}  // namespace

ScriptValue AttributeValue(const ScriptArchive& archive, size_t index) { return Pickled(archive, index, 0); }

absl::StatusOr<ScriptValue> ConstantValue(const ScriptArchive& archive, const PickleValue& constant) {
  if (constant.kind != PickleValue::Kind::kTensor) return Plain(constant);
  ScriptValue tensor = ScriptValue::Tensor(ScriptGraph::ValueOfTensor(constant.tensor.name));
  if (constant.tensor.shape.empty()) ADJOIN_RETURN_IF_ERROR(ReadNumber(archive, constant.tensor.name, tensor));
  return tensor;
}

}  // namespace adjoin
