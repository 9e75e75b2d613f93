#include "importer/torchscript/script_graph.h"

#include <algorithm>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/printable_text.h"
#include "base/status_macros.h"
#include "importer/archive/shown_name.h"
#include "importer/torchscript/aten_schemas.h"
#include "importer/torchscript/shape_inference.h"

namespace adjoin {
namespace {

using Kind = ScriptValue::Kind;

constexpr size_t kMaxHint = 64;  // bytes of a value's name, of which all that read it have copies
constexpr char kTarget[] = "torch.ops.aten.";

absl::Status Bad(const OpNode& node, absl::string_view what) {
  return absl::InvalidArgumentError(PrintableText(
      absl::StrCat(node.target, " in ", node.module.empty() ? "the model itself" : absl::StrCat("module ", node.module),
                   ": ", what),
      2 * kMaxShownName));
}

// Whether an operator of ATen without a schema may change the list or dict that is its first argument, as append and
// _set_item do. Those that return something new are few.
bool MayChangeList(const ScriptCall& call) {
  static const auto* harmless = new std::set<std::string>{"__contains__",
                                                          "__getitem__",
                                                          "_stack",
                                                          "align_tensors",
                                                          "atleast_1d",
                                                          "atleast_2d",
                                                          "atleast_3d",
                                                          "block_diag",
                                                          "broadcast_tensors",
                                                          "cartesian_prod",
                                                          "chain_matmul",
                                                          "column_stack",
                                                          "count",
                                                          "dstack",
                                                          "hstack",
                                                          "index",
                                                          "items",
                                                          "keys",
                                                          "linalg_multi_dot",
                                                          "list",
                                                          "pad_sequence",
                                                          "row_stack",
                                                          "values",
                                                          "vstack"};
  if (!call.target.empty() || harmless->count(call.op) > 0) return false;
  const auto may_change = [](const ScriptValue& value) {
    return value.kind == Kind::kList || value.kind == Kind::kDict;
  };
  // PyTorch writes it by its place.
  return call.places.empty() ? std::any_of(call.names.begin(), call.names.end(),
                                           [&](const auto& argument) { return may_change(argument.second); })
                             : may_change(call.places[0]);
}

}  // namespace

ScriptGraph::ScriptGraph(const ScriptArchive& archive) {
  bool any_trained = false;
  for (const auto& [name, tensor] : archive.tensors()) {
    const std::string value = ValueOfTensor(name);
    used_[value] = 1;
    const bool fits =
        std::all_of(tensor.shape.begin(), tensor.shape.end(), [](int64_t extent) { return extent <= kMaxExtent; });
    graph_.parameters[value] = name;
    if (fits) graph_.tensors[value] = {tensor.dtype, tensor.shape};
    if (archive.attributes().count(name) > 0) graph_.unsaved.insert(value);
    if (archive.buffers().count(name) > 0) {
      graph_.buffers.insert(value);
    } else if (archive.without_gradient().count(name) > 0) {
      graph_.frozen.insert(value);
    } else {
      any_trained = true;
    }
  }
  // A model whose parameters were all without gradients does not tell which are trained.
  if (!any_trained) graph_.frozen.clear();
}

std::string ScriptGraph::NewValue(const std::string& name) {
  const std::string hint = name.substr(0, kMaxHint);
  int& last = used_[hint];
  if (last++ == 0) return hint;
  std::string value = absl::StrCat(hint, "_", last);
  while (used_.count(value) > 0) value = absl::StrCat(hint, "_", ++last);
  used_[value] = 1;
  return value;
}

absl::StatusOr<ScriptValue> ScriptGraph::Append(OpNode node, const ScriptResults& results, const OpModules& modules) {
  if (graph_.nodes.size() == adjoin::kMaxNodes) {
    return absl::InvalidArgumentError(absl::StrCat("its trace has more than ", adjoin::kMaxNodes, " operators"));
  }
  if (modules.depth > kMaxModules) {
    return absl::InvalidArgumentError(absl::StrCat("its modules are nested more than ", kMaxModules, " deep"));
  }
  if (modules.innermost != nullptr) {
    node.innermost = modules.innermost;
    node.module = modules.innermost->path;
    node.module_type = modules.innermost->type;
  }
  const Results infos = InferResults(node, graph_.tensors);
  if (!infos.ok() && !absl::IsNotFound(infos.status())) {
    return Bad(node, absl::StrCat(infos.status().message(), "; right would be the extents that it was traced with"));
  }
  const size_t count = infos.ok() && results.list ? infos->size() : results.count;
  if (count > kMaxOutputs) {
    return Bad(node, absl::StrCat("it has ", count, " results; right would be at most ", kMaxOutputs));
  }
  ScriptValue all = ScriptValue::Of(results.list ? Kind::kList : Kind::kTuple);
  for (size_t i = 0; i < count; ++i) {
    node.outputs.push_back(NewValue(node.op));
    if (infos.ok() && i < infos->size()) graph_.tensors[node.outputs.back()] = (*infos)[i];
    all.Append(ScriptValue::Tensor(node.outputs.back()));
  }
  graph_.nodes.push_back(std::move(node));
  if (results.list || count != 1) return all;
  return all.items[0];
}

// A known number that stands for a tensor gets an operator that makes it.
absl::Status ScriptGraph::Place(ScriptValue& value, const OpModules& modules) {
  for (ScriptValue& item : value.items) ADJOIN_RETURN_IF_ERROR(Place(item, modules));
  if (value.kind != Kind::kTensor || !value.text.empty()) return absl::OkStatus();
  OpNode node;
  SetTarget(absl::StrCat(kTarget, "scalar_tensor.default"), node);
  ScriptValue number = value.whole ? ScriptValue::Int(value.number) : ScriptValue::Float(value.real);
  node.arguments["s"] = ArgumentOf(number, "Scalar");
  ADJOIN_ASSIGN_OR_RETURN(const ScriptValue made, Append(std::move(node), {1, false}, modules));
  value.text = made.text;
  return absl::OkStatus();
}

absl::Status ScriptGraph::SetArguments(ScriptCall& call, const OpModules& modules, OpNode& node,
                                       ScriptResults& results) {
  const std::vector<AtenSchema>& schemas = AtenSchemasOf(node.op);
  if (!call.target.empty() || schemas.empty()) {
    if (MayChangeList(call)) {
      const bool dict = !call.places.empty() && call.places[0].kind == Kind::kDict;
      return Bad(node, absl::StrCat("it is not known, and may change the ", dict ? "dict" : "list",
                                    " that it is given; right would be ", dict ? "tensors" : "a list",
                                    dict ? "" : " that is written whole, such as [a, b]"));
    }
    // It is refused by its name, and reads these tensors. What works in place changes the first one.
    std::vector<ScriptValue*> values;
    for (ScriptValue& value : call.places) values.push_back(&value);
    for (auto& [name, value] : call.names) values.push_back(&value);
    for (ScriptValue* value : values) {
      ADJOIN_RETURN_IF_ERROR(Place(*value, modules));
      const bool tensor = value->kind == Kind::kTensor ||
                          (!value->items.empty() && std::all_of(value->items.begin(), value->items.end(),
                                                                [](auto& item) { return item.kind == Kind::kTensor; }));
      const size_t number = node.arguments.size();
      const bool changed = number == 0 && node.in_place;
      node.arguments[changed ? "self" : absl::StrCat("argument_", number)] = ArgumentOf(*value, tensor ? "Tensor" : "");
    }
    return absl::OkStatus();
  }
  for (const bool tensors : {false, true}) {
    for (const AtenSchema& schema : schemas) {
      if (!Fits(schema, call.places, call.names, tensors)) continue;
      // How many a list has whose extents are not known, the method tells.
      results = {schema.results == 0 ? std::max<size_t>(call.results, 1) : schema.results, schema.results == 0};
      SetTarget(absl::StrCat(kTarget, call.op, ".", schema.overload), node);
      for (size_t i = 0; i < schema.arguments.size(); ++i) {
        const AtenArgument& argument = schema.arguments[i];
        ScriptValue* value = i < call.places.size() ? &call.places[i] : nullptr;
        for (auto& [name, named] : call.names) {
          if (value == nullptr && name == argument.name) value = &named;
        }
        if (value == nullptr) continue;
        if (absl::StartsWith(argument.type, "Tensor")) ADJOIN_RETURN_IF_ERROR(Place(*value, modules));
        node.arguments[argument.name] = ArgumentOf(*value, argument.type);
      }
      return absl::OkStatus();
    }
  }
  return Bad(node, "its arguments are none that this operator has");
}

absl::StatusOr<ScriptValue> ScriptGraph::Add(ScriptCall call, const OpModules& modules) {
  // Traces name a convolution so whose padding is a word.
  if (call.op == "_convolution_mode" && call.places.size() > 1) {
    const auto weight = graph_.tensors.find(call.places[1].text);
    const size_t dims = weight == graph_.tensors.end() ? 0 : weight->second.shape.size();
    if (dims >= 3 && dims <= 5) call.op = absl::StrCat("conv", dims - 2, "d");
  }
  OpNode node;
  SetTarget(call.target.empty() ? absl::StrCat(kTarget, call.op) : call.target, node);
  if (modules.innermost != nullptr) node.module = modules.innermost->path;
  ScriptResults results = {call.results, false};
  ADJOIN_RETURN_IF_ERROR(SetArguments(call, modules, node, results));
  return Append(std::move(node), results, modules);
}

}  // namespace adjoin
