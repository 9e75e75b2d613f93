#include "importer/graph/op_graph.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <set>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "base/printable_text.h"
#include "base/status_macros.h"
#include "importer/archive/scalar_type.h"

namespace adjoin {
namespace {

using nlohmann::json;

constexpr int64_t kOldestMajor = 5, kNewestMajor = 8;
constexpr size_t kMaxShownName = 200;
constexpr size_t kMaxDims = 16;
constexpr size_t kMaxWrittenPath = 16 * kMaxModelName;  // "getattr(...)" around each of its parts

// Null where there is none.
const json* Member(const json& object, const char* key) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(key);
  return found == object.end() ? nullptr : &*found;
}

std::string TextOf(const json* value) {
  return value != nullptr && value->is_string() ? value->get<std::string>() : "";
}

std::optional<int64_t> IntOf(const json& value) {
  if (!value.is_number_integer()) return std::nullopt;
  if (value.is_number_unsigned() && value.get<uint64_t>() > INT64_MAX) return std::nullopt;
  return value.get<int64_t>();
}

// A number or {"as_int": 3}.
std::optional<int64_t> FixedExtentOf(const json& value) {
  const json* fixed = Member(value, "as_int");
  return IntOf(fixed == nullptr ? value : *fixed);
}

// "s0" of {"as_expr": {"expr_str": "s0"}}.
std::string ExpressionOf(const json& extent) {
  const json* expression = Member(extent, "as_expr");
  return expression == nullptr ? "" : TextOf(Member(*expression, "expr_str"));
}

// "s0" or "Symbol('s0', positive=True, integer=True)", not "2*s0".
bool IsPlainSymbol(absl::string_view expression) {
  if (absl::ConsumePrefix(&expression, "Symbol(")) {
    return absl::ConsumeSuffix(&expression, ")") && expression.find_first_of("()") == absl::string_view::npos;
  }
  return !expression.empty() && std::all_of(expression.begin(), expression.end(),
                                            [](unsigned char c) { return absl::ascii_isalnum(c) || c == '_'; });
}

// A number, or one of the three that JSON has no number for and that PyTorch 2.7 and later write as text.
std::optional<double> DoubleOf(const json& value) {
  if (value.is_number()) return value.get<double>();
  const std::string text = TextOf(&value);
  if (text == "Infinity") return std::numeric_limits<double>::infinity();
  if (text == "-Infinity") return -std::numeric_limits<double>::infinity();
  if (text == "NaN") return std::numeric_limits<double>::quiet_NaN();
  return std::nullopt;
}

class ProgramReader {
 public:
  explicit ProgramReader(std::string path) : path_(std::move(path)) {}

  absl::StatusOr<OpGraph> Read(const json& program) {
    ADJOIN_RETURN_IF_ERROR(CheckVersion(program));
    const json* module = Member(program, "graph_module");
    const json* graph = module == nullptr ? nullptr : Member(*module, "graph");
    const json* signature = module == nullptr ? nullptr : Member(*module, "signature");
    if (graph == nullptr || signature == nullptr) return Lacks("a graph with its signature");
    ADJOIN_RETURN_IF_ERROR(ReadInputs(*signature));
    ADJOIN_RETURN_IF_ERROR(ReadTensors(*graph));
    FindFrozen();
    ADJOIN_RETURN_IF_ERROR(ReadOutputs(*signature));
    const json* nodes = Member(*graph, "nodes");
    if (nodes == nullptr || !nodes->is_array()) return Lacks("nodes");
    if (nodes->size() > kMaxNodes) {
      return Bad(absl::StrCat("its program has ", nodes->size(), " operators; at most ", kMaxNodes, " are read"));
    }
    for (const json& node : *nodes) ADJOIN_RETURN_IF_ERROR(ReadNode(node));
    for (const std::string& output : graph_.outputs) ADJOIN_RETURN_IF_ERROR(CheckDefined(output, "the model's result"));
    return std::move(graph_);
  }

 private:
  absl::Status Lacks(absl::string_view what) const {
    return absl::DataLossError(absl::StrCat(path_, ": its program lacks ", what));
  }
  absl::Status Bad(absl::string_view what) const { return absl::InvalidArgumentError(absl::StrCat(path_, ": ", what)); }

  // Each value is made once, before it is read, so that whoever follows values to what makes them comes to an end.
  absl::Status Define(const std::string& value) {
    if (value.empty() || defined_.insert(value).second) return absl::OkStatus();
    return Bad(absl::StrCat("its program defines the value ", PrintableText(value, kMaxShownName), " twice"));
  }
  absl::Status CheckDefined(const std::string& value, absl::string_view reader) const {
    if (value.empty() || defined_.count(value) > 0) return absl::OkStatus();
    return Bad(absl::StrCat(PrintableText(reader, kMaxShownName), " reads the value ",
                            PrintableText(value, kMaxShownName), " before it is defined"));
  }

  absl::Status CheckVersion(const json& program) const {
    const json* version = Member(program, "schema_version");
    const json* major = version == nullptr ? nullptr : Member(*version, "major");
    const std::optional<int64_t> number = major == nullptr ? std::nullopt : IntOf(*major);
    if (!number.has_value()) return Lacks("a schema_version");
    if (*number < kOldestMajor || *number > kNewestMajor) {
      return Bad(absl::StrCat("its program has version ", *number, "; versions ", kOldestMajor, " to ", kNewestMajor,
                              " are read, which PyTorch 2.4 and later write"));
    }
    return absl::OkStatus();
  }

  // What dim 0 of forward's first argument is called; "" where it is fixed.
  std::string BatchSymbol(const json& values) const {
    const json* meta = graph_.inputs.empty() ? nullptr : Member(values, graph_.inputs[0].c_str());
    const json* sizes = meta == nullptr ? nullptr : Member(*meta, "sizes");
    if (sizes == nullptr || !sizes->is_array() || sizes->empty()) return "";
    const std::string expression = ExpressionOf((*sizes)[0]);
    return IsPlainSymbol(expression) ? expression : "";
  }

  absl::Status ReadTensors(const json& graph) {
    const json* values = Member(graph, "tensor_values");
    if (values == nullptr || !values->is_object()) return Lacks("tensor_values");
    const std::string batch = BatchSymbol(*values);
    for (const auto& [name, meta] : values->items()) {
      const std::string shown = PrintableText(name, kMaxShownName);
      const json *dtype = Member(meta, "dtype"), *sizes = Member(meta, "sizes");
      if (dtype == nullptr || !dtype->is_number_unsigned() || sizes == nullptr || !sizes->is_array() ||
          sizes->size() > kMaxDims) {
        return Lacks(absl::StrCat("type and sizes of ", shown));
      }
      const std::optional<DType> known = DTypeOfCode(dtype->get<uint64_t>());
      if (!known.has_value()) continue;  // an error where a layer needs it
      TensorInfo info{*known, {}};
      for (const json& size : *sizes) {
        const std::string expression = ExpressionOf(size);
        std::optional<int64_t> extent = FixedExtentOf(size);
        if (!expression.empty()) extent = expression == batch ? kAnyExtent : kComputedExtent;
        if (!extent.has_value() || (expression.empty() && *extent < 0)) {
          return Lacks(absl::StrCat("whole sizes of ", shown));
        }
        info.shape.push_back(*extent);
      }
      const json* gradient = Member(meta, "requires_grad");
      if (gradient != nullptr && gradient->is_boolean() && !gradient->get<bool>()) without_gradient_.insert(name);
      graph_.tensors[name] = std::move(info);
    }
    return absl::OkStatus();
  }

  // Where no parameter has a gradient, the program was exported for inference and does not tell.
  void FindFrozen() {
    std::set<std::string> frozen;
    bool any_trained = false;
    for (const auto& [value, name] : graph_.parameters) {
      if (graph_.buffers.count(value) > 0) continue;
      if (without_gradient_.count(value) > 0) {
        frozen.insert(value);
      } else {
        any_trained = true;
      }
    }
    if (any_trained) graph_.frozen = std::move(frozen);
  }

  absl::Status ReadInputs(const json& signature) {
    const json* specs = Member(signature, "input_specs");
    if (specs == nullptr || !specs->is_array()) return Lacks("input_specs");
    constexpr const char* kNamed[][2] = {
        {"parameter", "parameter_name"}, {"buffer", "buffer_name"}, {"tensor_constant", "tensor_constant_name"}};
    for (const json& spec : *specs) {
      bool taken = false;
      for (const auto& [kind, key] : kNamed) {
        const json* named = Member(spec, kind);
        if (named == nullptr) continue;
        const json* argument = Member(*named, "arg");
        const std::string value = argument == nullptr ? "" : TextOf(Member(*argument, "name"));
        const std::string name = TextOf(Member(*named, key));
        if (value.empty() || name.empty()) return Lacks(absl::StrCat("the name of a ", kind));
        if (name.size() > kMaxModelName)
          return Bad(absl::StrCat("the name of a ", kind, " has ", name.size(), " bytes"));
        ADJOIN_RETURN_IF_ERROR(Define(value));
        graph_.parameters[value] = name;
        if (kind != kNamed[0][0]) graph_.buffers.insert(value);
        const json* persistent = Member(*named, "persistent");
        const bool is_saved = persistent == nullptr || !persistent->is_boolean() || persistent->get<bool>();
        if (kind == kNamed[2][0] || !is_saved) graph_.unsaved.insert(value);
        taken = true;
      }
      // A number, text or None, which is in the operators' arguments.
      if (taken || Member(spec, "constant_input") != nullptr) continue;
      const json* input = Member(spec, "user_input");
      const json* argument = input == nullptr ? nullptr : Member(*input, "arg");
      const json* tensor = argument == nullptr ? nullptr : Member(*argument, "as_tensor");
      const std::string value = tensor == nullptr ? "" : TextOf(Member(*tensor, "name"));
      if (!value.empty()) {
        ADJOIN_RETURN_IF_ERROR(Define(value));
        graph_.inputs.push_back(value);
      } else if (input == nullptr || argument == nullptr) {
        return Bad(
            "its program has an input that is neither a parameter, a buffer, a constant nor an argument of forward");
      }  // else a number or None, which is in the operators' arguments
    }
    return absl::OkStatus();
  }

  absl::Status ReadOutputs(const json& signature) {
    const json* specs = Member(signature, "output_specs");
    if (specs == nullptr || !specs->is_array()) return Lacks("output_specs");
    for (const json& spec : *specs) {
      const json *changed = Member(spec, "buffer_mutation"), *output = Member(spec, "user_output");
      if (changed != nullptr) graph_.changed_buffers.insert(TextOf(Member(*changed, "buffer_name")));
      const json* argument = output == nullptr ? nullptr : Member(*output, "arg");
      const json* tensor = argument == nullptr ? nullptr : Member(*argument, "as_tensor");
      const std::string value = tensor == nullptr ? "" : TextOf(Member(*tensor, "name"));
      if (!value.empty()) graph_.outputs.push_back(value);
    }
    if (graph_.outputs.empty()) return Bad("its program returns no tensor");
    return absl::OkStatus();
  }

  absl::Status ReadNode(const json& json_node) {
    OpNode node;
    SetTarget(TextOf(Member(json_node, "target")), node);
    const json *inputs = Member(json_node, "inputs"), *outputs = Member(json_node, "outputs");
    if (node.target.empty() || inputs == nullptr || !inputs->is_array() || outputs == nullptr || !outputs->is_array()) {
      return Lacks(absl::StrCat("target, inputs and outputs of node ", graph_.nodes.size()));
    }
    for (const json& input : *inputs) {
      const json* argument = Member(input, "arg");
      if (argument == nullptr) continue;
      OpArgument read = ReadArgument(*argument);
      for (const std::string& value : read.tensors) ADJOIN_RETURN_IF_ERROR(CheckDefined(value, node.target));
      node.arguments[TextOf(Member(input, "name"))] = std::move(read);
    }
    for (const json& output : *outputs) {
      const OpArgument values = ReadArgument(output);
      if (values.kind == OpArgument::Kind::kTensors) {
        node.outputs.insert(node.outputs.end(), values.tensors.begin(), values.tensors.end());
      } else if (values.kind == OpArgument::Kind::kNone) {
        node.outputs.push_back("");
      }
      if (node.outputs.size() > kMaxOutputs) {
        return Bad(absl::StrCat("its operator ", PrintableText(node.target, kMaxShownName), " has more than ",
                                kMaxOutputs, " results"));
      }
    }
    for (const std::string& value : node.outputs) ADJOIN_RETURN_IF_ERROR(Define(value));
    const json* metadata = Member(json_node, "metadata");
    if (metadata != nullptr) ADJOIN_RETURN_IF_ERROR(SetModules(TextOf(Member(*metadata, "nn_module_stack")), node));
    graph_.nodes.push_back(std::move(node));
    return absl::OkStatus();
  }

  // "layer1.0" of "layer1.0", and of "getattr(L['self'].layer1, '0')", as programs have it where a module has no name
  // of its own. The model itself is "L['self']" or, a Sequential, "L['fn']".
  static std::string PathOf(absl::string_view path) {
    std::string within;
    while (absl::ConsumePrefix(&path, "getattr(")) {
      const size_t comma = path.rfind(", '"), end = path.rfind("')");
      if (comma == absl::string_view::npos || end == absl::string_view::npos || end < comma + 3) break;
      within = absl::StrCat(".", path.substr(comma + 3, end - comma - 3), path.substr(end + 2), within);
      path = path.substr(0, comma);
    }
    if (!absl::ConsumePrefix(&path, "L['self']")) absl::ConsumePrefix(&path, "L['fn']");
    const std::string whole = absl::StrCat(path, within);
    return whole.substr(!whole.empty() && whole[0] == '.' ? 1 : 0);
  }

  // "key,path,type;key,path,type": the modules that the operator ran in, outermost first.
  absl::Status SetModules(absl::string_view stack, OpNode& node) const {
    size_t depth = 0;
    for (absl::string_view module : absl::StrSplit(stack, ';')) {
      const size_t first_comma = module.find(','), last_comma = module.rfind(',');
      if (first_comma == absl::string_view::npos || first_comma == last_comma) continue;
      const absl::string_view written = module.substr(first_comma + 1, last_comma - first_comma - 1);
      const std::string path = written.size() <= kMaxWrittenPath ? PathOf(written) : std::string();
      if (depth++ == kMaxModules || written.size() > kMaxWrittenPath || path.size() > kMaxModelName) {
        return Bad(absl::StrCat("its operator ", PrintableText(node.target, kMaxShownName),
                                " is in modules nested more ", "deeply than ", kMaxModules,
                                ", or of a name of more than ", kMaxModelName, " bytes"));
      }
      node.innermost = std::make_shared<const OpModule>(
          OpModule{path, std::string(module.substr(last_comma + 1)), std::move(node.innermost)});
    }
    if (node.innermost == nullptr) return absl::OkStatus();
    node.module = node.innermost->path;
    node.module_type = node.innermost->type;
    return absl::OkStatus();
  }

  static void AddTensor(const json& value, OpArgument& argument) {
    argument.tensors.push_back(TextOf(Member(value, "name")));
  }

  static bool AddNumber(const json& value, OpArgument& argument) {
    if (value.is_boolean()) {
      argument.kind = OpArgument::Kind::kBool;
      argument.ints.push_back(value.get<bool>());
      return true;
    }
    if (const std::optional<int64_t> number = FixedExtentOf(value); number.has_value()) {
      if (!argument.floats.empty()) return false;
      argument.kind = OpArgument::Kind::kInts;
      argument.ints.push_back(*number);
      return true;
    }
    const std::optional<double> number = value.is_string() ? std::nullopt : DoubleOf(value);
    if (!number.has_value() || !argument.ints.empty()) return false;
    argument.kind = OpArgument::Kind::kFloats;
    argument.floats.push_back(*number);
    return true;
  }

  static OpArgument Other() {
    OpArgument other;
    other.kind = OpArgument::Kind::kOther;
    return other;
  }

  // {"as_ints": [1, 2]}, {"as_tensor": {"name": "x"}}, {"as_none": true}, ...
  static OpArgument ReadArgument(const json& argument) {
    OpArgument result = Other();
    if (!argument.is_object() || argument.size() != 1) return result;
    const std::string& key = argument.begin().key();
    const json& value = argument.begin().value();
    result.list = value.is_array();
    if (key == "as_none") {
      result.kind = OpArgument::Kind::kNone;
    } else if (key == "as_tensor") {
      result.kind = OpArgument::Kind::kTensors;
      AddTensor(value, result);
    } else if ((key == "as_tensors" || key == "as_optional_tensors") && value.is_array()) {
      result.kind = OpArgument::Kind::kTensors;
      for (const json& item : value) AddTensor(Member(item, "as_tensor") ? *Member(item, "as_tensor") : item, result);
    } else if (key == "as_string" && value.is_string()) {
      result.kind = OpArgument::Kind::kText;
      result.text = value.get<std::string>();
    } else if (key == "as_float" || key == "as_floats") {
      result.kind = OpArgument::Kind::kFloats;
      for (const json& item : value.is_array() ? value : json::array({value})) {
        const std::optional<double> number = DoubleOf(item);
        if (!number.has_value()) return Other();
        result.floats.push_back(*number);
      }
    } else if (value.is_array()) {
      if (value.empty()) result.kind = OpArgument::Kind::kInts;
      for (const json& item : value) {
        if (!AddNumber(item, result)) return Other();
      }
    } else {
      AddNumber(value, result);
    }
    return result;
  }

  const std::string path_;
  OpGraph graph_;
  std::set<std::string> without_gradient_;  // values
  std::set<std::string> defined_;           // values so far
};

}  // namespace

std::string OpNode::Tensor(const std::string& name) const {
  const auto found = arguments.find(name);
  return found == arguments.end() || found->second.tensors.empty() ? "" : found->second.tensors[0];
}

bool OpNode::Has(const std::string& name) const {
  const auto found = arguments.find(name);
  return found != arguments.end() && found->second.kind != OpArgument::Kind::kNone;
}

std::string OpNode::UnreadArgument() const {
  static const auto* harmless = new std::set<std::string>{"device", "dtype", "layout", "memory_format", "pin_memory"};
  static const auto* reshaping = new std::set<std::string>{"_unsafe_view", "reshape", "unflatten", "view"};
  for (const auto& [name, argument] : arguments) {
    if (argument.kind != OpArgument::Kind::kOther || harmless->count(name) > 0) continue;
    const bool shape_only = reshaping->count(op) > 0 && (name == "size" || name == "shape" || name == "sizes");
    if (!shape_only) return name;
  }
  return "";
}

std::vector<std::string> OpNode::Changed() const {
  std::vector<std::string> changed;
  for (const char* name : {in_place ? (Has("self") ? "self" : "input") : "", "out"}) {
    const auto found = arguments.find(name);
    if (found == arguments.end()) continue;
    changed.insert(changed.end(), found->second.tensors.begin(), found->second.tensors.end());
  }
  return changed;
}

std::vector<int64_t> OpNode::Ints(const std::string& name, std::vector<int64_t> otherwise) const {
  const auto found = arguments.find(name);
  return found == arguments.end() || found->second.ints.empty() ? std::move(otherwise) : found->second.ints;
}

std::vector<double> OpNode::Floats(const std::string& name, std::vector<double> otherwise) const {
  const auto found = arguments.find(name);
  if (found == arguments.end()) return otherwise;
  if (!found->second.floats.empty()) return found->second.floats;
  if (found->second.ints.empty()) return otherwise;
  return std::vector<double>(found->second.ints.begin(), found->second.ints.end());
}

int64_t OpNode::Int(const std::string& name, int64_t otherwise) const { return Ints(name, {otherwise})[0]; }
double OpNode::Float(const std::string& name, double otherwise) const { return Floats(name, {otherwise})[0]; }
bool OpNode::Bool(const std::string& name, bool otherwise) const { return Ints(name, {otherwise})[0] != 0; }

std::string OpNode::Text(const std::string& name, const std::string& otherwise) const {
  const auto found = arguments.find(name);
  return found == arguments.end() || found->second.kind != OpArgument::Kind::kText ? otherwise : found->second.text;
}

void SetTarget(std::string target, OpNode& node) {
  node.target = std::move(target);
  absl::string_view name = node.target;
  if (!absl::ConsumePrefix(&name, "torch.ops.aten.")) {
    node.op = node.target;
    return;
  }
  const std::pair<absl::string_view, absl::string_view> parts = absl::StrSplit(name, absl::MaxSplits('.', 1));
  absl::string_view op = parts.first;
  node.in_place = absl::StartsWith(op, "__i") || (absl::EndsWith(op, "_") && !absl::EndsWith(op, "__"));
  if (node.in_place && !absl::EndsWith(op, "__")) op.remove_suffix(1);
  node.op = std::string(op);
  node.overload = std::string(parts.second);
}

absl::StatusOr<OpGraph> ReadOpGraph(const nlohmann::json& program, const std::string& path) {
  return ProgramReader(path).Read(program);
}

}  // namespace adjoin
