#include "importer/layers/layer_builder.h"

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "base/printable_text.h"
#include "base/status_macros.h"

namespace adjoin {
namespace {

// "layer1.0.relu" from any text: layers' names have letters, digits, '-', '_' and '.'.
std::string AsName(absl::string_view text) {
  std::string name(text);
  for (char& c : name) {
    if (!absl::ascii_isalnum(static_cast<unsigned char>(c)) && c != '-' && c != '_' && c != '.') c = '_';
  }
  return name;
}

// "conv1" of "conv1.weight"; "" where the name does not end with the role.
std::string PrefixOf(absl::string_view name, absl::string_view role) {
  if (!absl::ConsumeSuffix(&name, role) || !absl::ConsumeSuffix(&name, ".")) return "";
  return std::string(name);
}

// A module of PyTorch's own that computes one thing, so that its path names this.
bool IsLeaf(const OpNode& node) {
  return absl::StartsWith(node.module_type, "torch.nn.modules.") &&
         !absl::StrContains(node.module_type, ".container.") && !absl::StrContains(node.module_type, ".transformer.") &&
         !absl::EndsWith(node.module_type, "MultiheadAttention");
}

}  // namespace

LayerBuilder::LayerBuilder(const OpGraph& graph, const std::vector<std::string>& fields) : graph_(graph) {
  for (size_t i = 0; i < graph.inputs.size(); ++i) {
    source_[graph.inputs[i]] = fields[i];
    names_.insert(fields[i]);
  }
  for (const auto& [value, name] : graph.parameters) {
    parameter_names_.insert(name);
    if (name.rfind('.') != std::string::npos) modules_with_parameters_.insert(name.substr(0, name.rfind('.')));
  }
}

absl::StatusOr<std::vector<int64_t>> LayerBuilder::Shape(const std::string& value) const {
  const auto found = graph_.tensors.find(value);
  if (found != graph_.tensors.end()) return found->second.shape;
  return absl::InvalidArgumentError(
      value.empty() ? "a tensor is left out that it needs"
                    : absl::StrCat("the type of its tensor ", PrintableText(value), " is not supported"));
}

bool LayerBuilder::SameType(const std::string& a, const std::string& b) const {
  const auto first = graph_.tensors.find(a), second = graph_.tensors.find(b);
  return first != graph_.tensors.end() && second != graph_.tensors.end() && first->second.dtype == second->second.dtype;
}

absl::StatusOr<std::string> LayerBuilder::SourceOf(const std::string& value) const {
  const auto found = source_.find(value);
  if (stale_.count(value) > 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("it reads ", PrintableText(value), ", a view of what was changed in place since"));
  }
  if (found != source_.end()) return found->second;
  if (IsParameter(value)) {
    return absl::InvalidArgumentError(absl::StrCat("it reads ", PrintableText(graph_.parameters.at(value)),
                                                   ", a parameter or constant, as layers read inputs"));
  }
  return absl::InvalidArgumentError(absl::StrCat("no layer computes its input ", PrintableText(value)));
}

std::string LayerBuilder::BaseOf(const std::string& value) const {
  const auto found = base_.find(value);
  return found == base_.end() ? value : found->second;
}

std::string LayerBuilder::TensorOf(const std::string& value) const {
  const auto found = tensor_.find(value);
  return found == tensor_.end() ? value : found->second;
}

bool LayerBuilder::Owned(const std::string& value) const {
  const auto found = graph_.parameters.find(value);
  return found != graph_.parameters.end() && owner_.count(found->second) > 0;
}

bool LayerBuilder::Trained(const std::string& value) const {
  const auto found = source_.find(value);
  return IsParameter(value) || (found != source_.end() && trained_.count(found->second) > 0);
}

std::string LayerBuilder::Unique(std::string name) {
  if (name.empty()) name = "layer";
  if (names_.count(name) == 0) return name;
  for (int& i = next_suffix_.try_emplace(name, 2).first->second;; ++i) {
    const std::string candidate = absl::StrCat(name, "_", i);
    if (names_.count(candidate) == 0) return candidate;
  }
}

std::string LayerBuilder::NameOf(const OpNode& node, const std::vector<LayerParameter>& parameters) {
  for (const auto& [role, value] : parameters) {
    if (value.empty()) continue;
    const std::string& name = graph_.parameters.at(value);
    const std::string prefix = PrefixOf(name, role);
    // A parameter that another layer owns is shared, and this layer has another module's name.
    if (!prefix.empty() && owner_.count(name) == 0) return Unique(AsName(prefix));
    break;
  }
  if (IsLeaf(node) && (parameters.empty() ? modules_with_parameters_.count(node.module) == 0 : true)) {
    return Unique(AsName(node.module));
  }
  return Unique(AsName(node.module.empty() ? node.op : absl::StrCat(node.module, ".", node.op)));
}

absl::Status LayerBuilder::TakeParameters(const std::vector<LayerParameter>& parameters, Layer& layer) {
  std::set<std::string> owners;
  std::vector<std::pair<std::string, std::string>> taken;
  for (const auto& [role, value] : parameters) {
    if (value.empty()) continue;
    const std::string& name = graph_.parameters.at(value);
    const auto owner = owner_.find(name);
    owners.insert(owner == owner_.end() ? "" : owner->second);
    taken.emplace_back(role, name);
  }
  if (owners.size() > 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("it shares some of its parameters with another layer, and others not; ",
                     "right would be to share all of them, or none"));
  }
  if (owners.size() == 1 && !owners.begin()->empty()) {
    layer.set_weights_of(*owners.begin());
    return absl::OkStatus();
  }
  for (const auto& [role, name] : taken) {
    owner_[name] = layer.name();
    weights_.push_back({absl::StrCat(layer.name(), ".", role), name});
  }
  return absl::OkStatus();
}

absl::Status LayerBuilder::Add(const OpNode& node, Layer layer, const std::vector<std::string>& inputs,
                               const std::vector<LayerParameter>& parameters) {
  if (node.outputs.empty()) return absl::InvalidArgumentError("it returns nothing");
  for (const auto& [role, value] : parameters) {
    if (!value.empty() && !IsParameter(value)) {
      return absl::InvalidArgumentError(
          absl::StrCat("its ", role, " is ", PrintableText(value), ", which is computed; right would be a parameter"));
    }
  }
  bool trained = !parameters.empty();
  for (const std::string& input : inputs) {
    ADJOIN_ASSIGN_OR_RETURN(const std::string source, SourceOf(input));
    layer.add_input(source);
    trained = trained || trained_.count(source) > 0;
  }
  layer.set_name(NameOf(node, parameters));
  ADJOIN_RETURN_IF_ERROR(TakeParameters(parameters, layer));
  names_.insert(layer.name());
  if (trained) trained_.insert(layer.name());
  Bind(node, layer.name());
  layers_.push_back(std::move(layer));
  return absl::OkStatus();
}

void LayerBuilder::Bind(const OpNode& node, const std::string& source) {
  const std::string& output = node.outputs[0];
  if (node.in_place) {
    // The first argument of an operator that works in place is called so in all of them.
    const std::string changed = node.Tensor(node.Has("self") ? "self" : "input");
    const std::string tensor = TensorOf(changed), base = BaseOf(changed);
    for (auto& [value, its_source] : source_) {
      if (BaseOf(value) != base) continue;
      if (TensorOf(value) == tensor) {
        its_source = source;
      } else {
        stale_.insert(value);
      }
    }
    base_[output] = base;
    tensor_[output] = tensor;
  }
  source_[output] = source;
}

absl::Status LayerBuilder::Alias(const OpNode& node, const std::string& value, Shares shares) {
  if (node.outputs.empty()) return absl::InvalidArgumentError("it returns nothing");
  ADJOIN_ASSIGN_OR_RETURN(const std::string source, SourceOf(value));
  if (shares != Shares::kNever) ShareElements(node, value);
  if (shares == Shares::kAlways) tensor_[node.outputs[0]] = TensorOf(value);
  source_[node.outputs[0]] = source;
  return absl::OkStatus();
}

void LayerBuilder::AddUnreadBuffer(const std::string& role, const std::string& sibling) {
  const std::string& beside = graph_.parameters.at(sibling);
  const size_t dot = beside.rfind('.');
  const std::string name = dot == std::string::npos ? role : absl::StrCat(beside.substr(0, dot), ".", role);
  weights_.push_back({absl::StrCat(layers_.back().name(), ".", role), parameter_names_.count(name) > 0 ? name : ""});
}

void LayerBuilder::Forget(const OpNode& node) {
  for (const std::string& output : node.outputs) forgotten_.insert(output);
}

}  // namespace adjoin
