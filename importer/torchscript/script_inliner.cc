#include "importer/torchscript/script_inliner.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "base/printable_text.h"
#include "base/status_macros.h"
#include "importer/archive/shown_name.h"
#include "importer/torchscript/script_attributes.h"
#include "importer/torchscript/script_graph.h"
#include "importer/torchscript/script_syntax.h"
#include "importer/torchscript/script_value.h"
#include "importer/torchscript/shape_inference.h"

namespace adjoin {
namespace {

using Kind = ScriptValue::Kind;
using Form = ScriptExpression::Kind;
using Values = std::vector<ScriptValue>;

constexpr size_t kMaxCalls = 100;  // methods in each other
constexpr int kMaxNested = 600;    // expressions in each other, of all methods that run

// "torch.nn.functional" of names with dots between them; "" of anything else.
std::string DottedName(const ScriptExpression& expression) {
  std::vector<absl::string_view> parts;
  const ScriptExpression* at = &expression;
  for (; at->kind == Form::kAttribute; at = &at->items[0]) parts.push_back(at->text);
  if (at->kind != Form::kName) return "";
  parts.push_back(at->text);
  std::reverse(parts.begin(), parts.end());
  return absl::StrJoin(parts, ".");
}

// A method that runs: its place for messages, and its variables.
struct Frame {
  std::string where;  // "model.pt: code/__torch__/net.py"
  std::map<std::string, ScriptValue> variables;
  size_t unpacked = 1;  // how many results the statement takes
};

class Inliner {
 public:
  explicit Inliner(const ScriptArchive& archive) : archive_(archive), graph_(archive) {}

  absl::StatusOr<OpGraph> Run(const std::vector<ExampleInput>& examples) {
    const ScriptModule& model = archive_.modules().at(archive_.root());
    ADJOIN_ASSIGN_OR_RETURN(const ScriptClass* type, archive_.FindClass(model.class_name));
    const auto forward = type->methods.find("forward");
    if (forward == type->methods.end()) {
      return absl::InvalidArgumentError(absl::StrCat(archive_.FileOf(model.class_name), ": it has no method forward"));
    }
    ADJOIN_ASSIGN_OR_RETURN(const Values arguments, Arguments(forward->second, examples));
    ADJOIN_ASSIGN_OR_RETURN(const ScriptValue result, CallMethod(archive_.root(), "forward", arguments, {}));
    AddOutputs(result);
    if (graph_.graph().outputs.empty()) {
      return absl::InvalidArgumentError(absl::StrCat(archive_.path(), ": its forward returns no tensor"));
    }
    return std::move(graph_.graph());
  }

 private:
  static absl::Status Bad(const Frame& frame, int line, absl::string_view what) {
    return absl::InvalidArgumentError(absl::StrCat(frame.where, ":", line, ": ", what));
  }
  static absl::Status Unlike(const Frame& frame, int line, absl::string_view what) {
    return Bad(frame, line, absl::StrCat(what, "; right would be a file that torch.jit.trace made"));
  }

  absl::StatusOr<Values> Arguments(const ScriptMethod& forward, const std::vector<ExampleInput>& examples) {
    std::vector<std::string> names;
    for (size_t i = 1; i < forward.parameters.size(); ++i) {
      const ScriptParameter& parameter = forward.parameters[i];
      names.push_back(PrintableText(parameter.name, kMaxShownName));
      if (parameter.type == "Tensor") continue;
      return absl::InvalidArgumentError(absl::StrCat(archive_.path(), ": forward's argument ", names.back(), " is a ",
                                                     PrintableText(parameter.type, kMaxShownName),
                                                     "; right would be a model of tensors"));
    }
    if (examples.size() != names.size()) {
      return absl::InvalidArgumentError(absl::StrCat(
          archive_.path(), ": a file of torch.jit.save does not tell the extents of its arguments, which are ",
          names.size(), " (", PrintableText(absl::StrJoin(names, ", "), kMaxShownName), "), and --example-shape has ",
          examples.size(), "; right would be those that it was traced with, such as --example-shape 2x3x64x64"));
    }
    Values arguments;
    for (size_t i = 0; i < examples.size(); ++i) {
      const std::string value = graph_.NewValue(forward.parameters[i + 1].name);
      graph_.graph().inputs.push_back(value);
      graph_.graph().tensors[value] = {examples[i].dtype.value_or(TypeOfWeights()), examples[i].shape};
      arguments.push_back(ScriptValue::Tensor(value));
    }
    return arguments;
  }

  DType TypeOfWeights() const {
    for (const auto& [name, tensor] : archive_.tensors()) {
      if (IsFloatingPoint(tensor.dtype) && archive_.buffers().count(name) == 0) return tensor.dtype;
    }
    return DType::kFloat32;
  }

  void AddOutputs(const ScriptValue& value) {
    if (value.kind == Kind::kTensor && !value.text.empty()) graph_.graph().outputs.push_back(value.text);
    for (const ScriptValue& item : value.items) AddOutputs(item);
  }

  absl::Status CountSteps(const Frame& frame, int line, size_t steps) {
    steps_ += static_cast<int64_t>(steps);
    if (steps_ <= kMaxScriptSteps) return absl::OkStatus();
    return Bad(frame, line, absl::StrCat("its methods call each other more often than ", kMaxScriptSteps, " steps"));
  }

  // -- Methods.
  absl::StatusOr<ScriptValue> CallMethod(size_t object, const std::string& name, Values arguments,
                                         const std::vector<std::string>& names) {
    const ScriptModule& module = archive_.modules().at(object);
    ADJOIN_ASSIGN_OR_RETURN(const ScriptClass* type, archive_.FindClass(module.class_name));
    const auto method = type->methods.find(name);
    if (method == type->methods.end()) {
      return absl::InvalidArgumentError(absl::StrCat(archive_.FileOf(module.class_name), ": class ",
                                                     PrintableText(module.type, kMaxShownName), " has no method ",
                                                     PrintableText(name, kMaxShownName)));
    }
    ScriptValue self = ScriptValue::Of(Kind::kModule);
    self.object = object;
    arguments.insert(arguments.begin(), std::move(self));
    const OpModules outside = modules_;
    if (modules_.innermost == nullptr || modules_.innermost->path != module.path) {
      modules_.innermost = std::make_shared<const OpModule>(OpModule{module.path, module.type, outside.innermost});
      ++modules_.depth;
    }
    absl::StatusOr<ScriptValue> result =
        Call(absl::StrCat(module.class_name, ".", name), archive_.FileOf(module.class_name), method->second,
             std::move(arguments), names);
    modules_ = outside;
    return result;
  }

  absl::StatusOr<ScriptValue> Call(const std::string& name, const std::string& where, const ScriptMethod& method,
                                   Values arguments, const std::vector<std::string>& names) {
    Frame frame;
    frame.where = where;
    if (!method.control.empty()) {
      return Bad(frame, method.control_line,
                 absl::StrCat("its method ", PrintableText(name, kMaxShownName), " has `", method.control,
                              "`, so that it is scripted; right would be torch.jit.trace(model.eval(), example)"));
    }
    if (running_.size() == kMaxCalls) return Bad(frame, method.line, "methods call each other too deeply");
    // The same class twice in each other is two modules; the same module is one that calls itself.
    const std::string key = absl::StrCat(name, "@", modules_.innermost == nullptr ? "" : modules_.innermost->path);
    if (!running_.insert(key).second) {
      return Bad(frame, method.line, absl::StrCat("its method ", PrintableText(name, kMaxShownName), " calls itself"));
    }
    if (!names.empty() || arguments.size() != method.parameters.size()) {
      return Unlike(frame, method.line,
                    absl::StrCat("its method ", PrintableText(name, kMaxShownName), " is called with ",
                                 arguments.size(), " arguments, and has ", method.parameters.size()));
    }
    for (size_t i = 0; i < arguments.size(); ++i) {
      frame.variables[method.parameters[i].name] = std::move(arguments[i]);
    }
    absl::StatusOr<ScriptValue> result = RunBody(method, frame);
    running_.erase(key);
    return result;
  }

  absl::StatusOr<ScriptValue> RunBody(const ScriptMethod& method, Frame& frame) {
    for (const ScriptStatement& statement : method.body) {
      frame.unpacked = statement.returns ? 1 : statement.targets.size();
      if (frame.unpacked == 1 && !statement.returns && statement.value.kind == Form::kCall) {
        const auto found = method.unpacked.find(statement.targets[0]);
        if (found != method.unpacked.end()) frame.unpacked = found->second;
      }
      ADJOIN_ASSIGN_OR_RETURN(ScriptValue value, Evaluate(statement.value, frame));
      if (statement.returns) return value;
      if (!statement.unpacks) {
        if (!statement.targets.empty()) frame.variables[statement.targets[0]] = std::move(value);
        continue;
      }
      if ((value.kind != Kind::kList && value.kind != Kind::kTuple) || value.items.size() != statement.targets.size()) {
        return Unlike(
            frame, statement.line,
            absl::StrCat("there are ", statement.targets.size(), " names for ", value.items.size(), " values"));
      }
      for (size_t i = 0; i < statement.targets.size(); ++i) {
        frame.variables[statement.targets[i]] = std::move(value.items[i]);
      }
    }
    return ScriptValue();
  }

  // -- Expressions.
  absl::StatusOr<ScriptValue> Evaluate(const ScriptExpression& expression, Frame& frame) {
    ADJOIN_RETURN_IF_ERROR(CountSteps(frame, expression.line, 1));
    if (depth_ == kMaxNested) return Bad(frame, expression.line, "methods and their arguments are nested too deeply");
    ++depth_;
    absl::StatusOr<ScriptValue> value = ValueOf(expression, frame);
    --depth_;
    return value;
  }

  absl::StatusOr<ScriptValue> ValueOf(const ScriptExpression& expression, Frame& frame) {
    switch (expression.kind) {
      case Form::kInt: return ScriptValue::Int(expression.number);
      case Form::kFloat: return ScriptValue::Float(expression.real);
      case Form::kText: {
        ADJOIN_RETURN_IF_ERROR(CountSteps(frame, expression.line, expression.text.size() / kTextOfOne));
        return ScriptValue::Text(expression.text);
      }
      case Form::kName: return Named(expression, frame);
      case Form::kAttribute: return Attribute(expression, frame);
      case Form::kCall: return CallOf(expression, frame);
      case Form::kIndex: return Item(expression, frame);
      case Form::kNegative: return Negative(expression, frame);
      default: return Several(expression, frame);
    }
  }

  absl::StatusOr<ScriptValue> Named(const ScriptExpression& expression, Frame& frame) {
    const auto found = frame.variables.find(expression.text);
    if (found != frame.variables.end()) {
      ADJOIN_RETURN_IF_ERROR(CountSteps(frame, expression.line, found->second.size));
      return found->second;
    }
    if (expression.text == "None") return ScriptValue();
    if (expression.text == "inf") return ScriptValue::Float(std::numeric_limits<double>::infinity());
    if (expression.text == "nan") return ScriptValue::Float(std::numeric_limits<double>::quiet_NaN());
    if (expression.text == "True" || expression.text == "False") {
      ScriptValue value = ScriptValue::Of(Kind::kBool);
      value.number = expression.text == "True";
      return value;
    }
    return Unlike(frame, expression.line,
                  absl::StrCat("the name ", PrintableText(expression.text, kMaxShownName), " is not defined"));
  }

  absl::StatusOr<ScriptValue> Negative(const ScriptExpression& expression, Frame& frame) {
    ADJOIN_ASSIGN_OR_RETURN(ScriptValue value, Evaluate(expression.items[0], frame));
    if (!value.IsNumber()) return Unlike(frame, expression.line, "a minus is before what is no number");
    value.real = -value.real;
    value.number = static_cast<int64_t>(-static_cast<uint64_t>(value.number));
    return value;
  }

  absl::StatusOr<ScriptValue> Several(const ScriptExpression& expression, Frame& frame) {
    ScriptValue value = ScriptValue::Of(expression.kind == Form::kList    ? Kind::kList
                                        : expression.kind == Form::kTuple ? Kind::kTuple
                                                                          : Kind::kDict);
    for (const ScriptExpression& item : expression.items) {
      ADJOIN_ASSIGN_OR_RETURN(ScriptValue one, Evaluate(item, frame));
      value.Append(std::move(one));
      if (value.size > kMaxScriptItems) {
        return Bad(frame, expression.line, absl::StrCat("a list has more than ", kMaxScriptItems, " values"));
      }
    }
    return value;
  }

  absl::StatusOr<ScriptValue> Item(const ScriptExpression& expression, Frame& frame) {
    ADJOIN_ASSIGN_OR_RETURN(ScriptValue list, Evaluate(expression.items[0], frame));
    if (expression.items.size() != 2) return Unlike(frame, expression.line, "there are several indices");
    ADJOIN_ASSIGN_OR_RETURN(const ScriptValue index, Evaluate(expression.items[1], frame));
    const int64_t count = static_cast<int64_t>(list.items.size());
    const int64_t at = index.number < 0 ? index.number + count : index.number;
    if ((list.kind != Kind::kList && list.kind != Kind::kTuple) || index.kind != Kind::kInt || at < 0 || at >= count) {
      return Unlike(frame, expression.line, "an index is of no list, or beyond it");
    }
    ScriptValue item = std::move(list.items[static_cast<size_t>(at)]);
    return item;
  }

  absl::StatusOr<ScriptValue> Attribute(const ScriptExpression& expression, Frame& frame) {
    const ScriptExpression& of = expression.items[0];
    if (of.kind == Form::kName && of.text == "CONSTANTS") return Constant(expression, frame);
    ADJOIN_ASSIGN_OR_RETURN(const ScriptValue module, Evaluate(of, frame));
    return AttributeOf(module, expression.text, expression.line, frame);
  }

  absl::StatusOr<ScriptValue> AttributeOf(const ScriptValue& module, const std::string& name, int line,
                                          const Frame& frame) {
    const std::string shown = PrintableText(name, kMaxShownName);
    if (module.kind != Kind::kModule) {
      return Unlike(frame, line, absl::StrCat("the attribute ", shown, " is of what is no module"));
    }
    const ScriptModule& owner = archive_.modules().at(module.object);
    const auto found = owner.attributes.find(name);
    if (found == owner.attributes.end()) {
      return Unlike(frame, line,
                    absl::StrCat("module ", PrintableText(owner.path, kMaxShownName), " has no attribute ", shown));
    }
    ScriptValue value = AttributeValue(archive_, found->second);
    ADJOIN_RETURN_IF_ERROR(CountSteps(frame, line, value.size));
    return value;
  }

  // "CONSTANTS.c12"
  absl::StatusOr<ScriptValue> Constant(const ScriptExpression& expression, const Frame& frame) {
    absl::string_view digits = expression.text;
    uint32_t index = 0;
    const bool read = absl::ConsumePrefix(&digits, "c") && absl::SimpleAtoi(digits, &index);
    const PickleValue* value = read ? archive_.Constant(index) : nullptr;
    if (value == nullptr) {
      return Unlike(frame, expression.line,
                    absl::StrCat("there is no constant ", PrintableText(expression.text, kMaxShownName)));
    }
    ADJOIN_ASSIGN_OR_RETURN(ScriptValue constant, ConstantValue(archive_, *value));
    ADJOIN_RETURN_IF_ERROR(CountSteps(frame, expression.line, constant.size));
    return constant;
  }

  // -- Calls.
  absl::StatusOr<ScriptValue> CallOf(const ScriptExpression& call, Frame& frame) {
    const ScriptExpression& callee = call.items[0];
    const size_t unpacked = std::exchange(frame.unpacked, 1);
    const std::string name = DottedName(callee);
    // The first argument of these is a type, or nothing to compute.
    if (name == "annotate" || name == "unchecked_cast") {
      if (call.items.size() != 3) return Unlike(frame, call.line, "annotate is of a type and a value");
      frame.unpacked = unpacked;
      return Evaluate(call.items[2], frame);
    }
    if (name == "uninitialized") return ScriptValue();
    ScriptCall written;
    const size_t first_named = call.items.size() - call.names.size();
    for (size_t i = 1; i < call.items.size(); ++i) {
      ADJOIN_ASSIGN_OR_RETURN(ScriptValue value, Evaluate(call.items[i], frame));
      if (i < first_named) {
        written.places.push_back(std::move(value));
      } else {
        written.names.emplace_back(call.names[i - first_named], std::move(value));
      }
    }
    written.results = unpacked;
    if (callee.kind == Form::kName) return BuiltIn(callee.text, written, call.line, frame);
    const bool is_variable = frame.variables.count(name.substr(0, name.find('.'))) > 0;
    if (name.empty() || is_variable) {
      ADJOIN_ASSIGN_OR_RETURN(const ScriptValue owner, Evaluate(callee.items[0], frame));
      if (owner.kind != Kind::kModule) {
        return Unlike(
            frame, call.line,
            absl::StrCat("the method ", PrintableText(callee.text, kMaxShownName), " is of what is no module"));
      }
      return CallMethod(owner.object, callee.text, std::move(written.places), call.names);
    }
    if (absl::StartsWith(name, "__torch__.")) {
      ADJOIN_ASSIGN_OR_RETURN(const ScriptMethod* function, archive_.FindFunction(name));
      return Call(name, archive_.FileOf(name), *function, std::move(written.places), call.names);
    }
    return Operator(name, std::move(written), call.line, frame);
  }

  // int(x), float(x), bool(x), getattr(self, "0").
  absl::StatusOr<ScriptValue> BuiltIn(const std::string& name, const ScriptCall& call, int line, const Frame& frame) {
    if (name == "getattr" && call.places.size() == 2 && call.places[1].kind == Kind::kText) {
      return AttributeOf(call.places[0], call.places[1].text, line, frame);
    }
    const bool converts = name == "int" || name == "float" || name == "bool";
    if (!converts || call.places.size() != 1) {
      return Unlike(frame, line, absl::StrCat("the function ", PrintableText(name, kMaxShownName), " is not known"));
    }
    const ScriptValue& value = call.places[0];
    if (value.kind == Kind::kText && name == "float") {  // "inf", "-inf", "nan"
      double real = 0;
      if (!absl::SimpleAtod(value.text, &real)) return Unlike(frame, line, "a text is no number");
      return ScriptValue::Float(real);
    }
    return Converted(name, value);
  }

  // "torch.add", "ops.aten.add", "ops.prim.NumToTensor"
  absl::StatusOr<ScriptValue> Operator(const std::string& name, ScriptCall call, int line, const Frame& frame) {
    const std::vector<absl::string_view> parts = absl::StrSplit(name, '.');
    const bool is_torch = parts.size() == 2 && parts[0] == "torch";
    const bool is_ops = parts.size() == 3 && parts[0] == "ops";
    if (!is_torch && !is_ops) {
      return Unlike(frame, line, absl::StrCat("the function ", PrintableText(name, kMaxShownName), " is not known"));
    }
    call.op = std::string(parts.back());
    if (is_ops && parts[1] != "aten" && parts[1] != "prim") call.target = absl::StrCat("torch.", name);
    if (is_ops && parts[1] == "prim") {
      if (call.op == "NumToTensor" && call.places.size() == 1) return NumberAsTensor(call.places[0]);
      if (call.op == "data" && call.places.size() == 1) {
        call.op = "detach";
      } else {
        return ScriptValue::Of(call.op == "device" ? Kind::kOther : Kind::kComputed);
      }
    }
    if (call.target.empty()) {
      if (std::optional<ScriptValue> number = Number(call); number.has_value()) return *std::move(number);
    }
    absl::StatusOr<ScriptValue> made = graph_.Add(std::move(call), modules_);
    if (!made.ok()) return Bad(frame, line, made.status().message());
    ADJOIN_RETURN_IF_ERROR(CountSteps(frame, line, 1 + made->items.size()));
    return made;
  }

  // What is a number when the model is imported: sizes, and what is computed of them.
  std::optional<ScriptValue> Number(const ScriptCall& call) const {
    const Values& places = call.places;
    const bool one = places.size() == 1;
    if (call.op == "device") return ScriptValue::Of(Kind::kOther);  // torch.device("cpu")
    if (one && (call.op == "Int" || call.op == "IntImplicit")) return Converted("int", places[0]);
    if (one && (call.op == "Float" || call.op == "FloatImplicit")) return Converted("float", places[0]);
    if (one && call.op == "Bool") return Converted("bool", places[0]);
    if (one && call.op == "len" && (places[0].kind == Kind::kList || places[0].kind == Kind::kTuple)) {
      return ScriptValue::Int(static_cast<int64_t>(places[0].items.size()));
    }
    if (one && call.op == "len") return ScriptValue::Of(Kind::kComputed);
    if (one && (call.op == "item" || call.op == "ScalarImplicit")) {
      return Converted(places[0].IsWhole() ? "int" : "float", places[0]);
    }
    if (!places.empty() && places[0].kind == Kind::kTensor &&
        (call.op == "size" || call.op == "dim" || call.op == "numel")) {
      return SizeOf(call);
    }
    std::string rounding;
    Values numbers = places;
    for (const auto& [name, value] : call.names) {
      if (name == "rounding_mode" && value.kind == Kind::kText) {
        rounding = value.text;
      } else if (name == "alpha") {
        numbers.push_back(value);
      } else {
        return std::nullopt;
      }
    }
    bool any_tensor = false;
    for (const ScriptValue& value : numbers) {
      any_tensor = any_tensor || value.kind == Kind::kTensor;
      if (!value.IsNumber() && !value.known) return std::nullopt;
    }
    std::optional<ScriptValue> folded = FoldNumbers(call.op, numbers, rounding);
    if (folded.has_value() && !any_tensor) return Converted(folded->whole ? "int" : "float", *folded);
    return folded;
  }

  std::optional<ScriptValue> SizeOf(const ScriptCall& call) const {
    const ScriptValue& tensor = call.places[0];
    const auto found = graph_.graph().tensors.find(tensor.text);
    if (found == graph_.graph().tensors.end() && !tensor.known) return ScriptValue::Of(Kind::kComputed);
    const Extents shape = tensor.known ? Extents() : found->second.shape;
    if (call.op == "dim") return ScriptValue::Int(static_cast<int64_t>(shape.size()));
    if (call.op == "numel") return ScriptValue::Int(ElementsOf(shape));
    if (call.places.size() == 1) {
      ScriptValue list = ScriptValue::Of(Kind::kList);
      for (const int64_t extent : shape) list.Append(ScriptValue::Int(extent));
      return list;
    }
    const ScriptValue& dim = call.places[1];
    const int64_t count = static_cast<int64_t>(shape.size());
    if (dim.kind != Kind::kInt || dim.number < -count || dim.number >= count) return ScriptValue::Of(Kind::kComputed);
    return ScriptValue::Int(shape[static_cast<size_t>(dim.number < 0 ? dim.number + count : dim.number)]);
  }

  const ScriptArchive& archive_;
  ScriptGraph graph_;
  OpModules modules_;              // those that run
  std::set<std::string> running_;  // methods with their modules
  int64_t steps_ = 0;
  int depth_ = 0;
};

}  // namespace

absl::StatusOr<OpGraph> InlineScript(const ScriptArchive& archive, const std::vector<ExampleInput>& examples) {
  return Inliner(archive).Run(examples);
}

}  // namespace adjoin
