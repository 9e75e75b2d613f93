#include "importer/layers/layer_builder.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "base/printable_text.h"
#include "base/status_macros.h"
#include "importer/layers/layer_names.h"

namespace adjoin {

LayerBuilder::LayerBuilder(const OpGraph& graph, ConstantEvaluator& constants, const std::vector<std::string>& fields)
    : graph_(graph), constants_(constants) {
  for (size_t i = 0; i < graph.inputs.size(); ++i) {
    const auto found = graph.tensors.find(graph.inputs[i]);
    Value value;
    value.source = fields[i];
    if (found != graph.tensors.end()) value.view = ValueView::OfValue(found->second.shape);
    shapes_[fields[i]] = value.view.base();
    if (IsFloat(graph.inputs[i])) beside_ = fields[i];
    values_[graph.inputs[i]] = std::move(value);
    names_.insert(fields[i]);
  }
  for (const auto& [value, name] : graph.parameters) {
    parameter_names_.insert(name);
    if (name.rfind('.') != std::string::npos) modules_with_parameters_.insert(name.substr(0, name.rfind('.')));
    const auto found = graph.tensors.find(value);
    if (found == graph.tensors.end() || graph.unsaved.count(value) > 0) continue;
    own_[value] = {value, ParameterView::Of(found->second.shape), AsName(name)};
  }
}

absl::StatusOr<std::vector<int64_t>> LayerBuilder::Shape(const std::string& value) const {
  if (const TensorInfo* info = InfoOf(value); info != nullptr) return info->shape;
  return absl::InvalidArgumentError(
      value.empty() ? "a tensor is left out that it needs"
                    : absl::StrCat("the type of its tensor ", PrintableText(value), " is not supported"));
}

const TensorInfo* LayerBuilder::InfoOf(const std::string& value) const {
  for (const auto* tensors : {&graph_.tensors, &lifted_}) {
    const auto found = tensors->find(value);
    if (found != tensors->end()) return &found->second;
  }
  return nullptr;
}

bool LayerBuilder::SameType(const std::string& a, const std::string& b) const {
  const TensorInfo *first = InfoOf(a), *second = InfoOf(b);
  return first != nullptr && second != nullptr && first->dtype == second->dtype;
}

bool LayerBuilder::IsFloat(const std::string& value) const {
  const TensorInfo* info = InfoOf(value);
  return info != nullptr && IsFloatingPoint(info->dtype);
}

absl::Status LayerBuilder::CheckReadable(const std::string& value) const {
  if (stale_.count(TensorOf(value)) > 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("it reads ", PrintableText(value), ", a view of what was changed in place since"));
  }
  if (IsLayer(value)) return absl::OkStatus();
  const auto own = own_.find(value);
  if (own != own_.end()) {
    return absl::InvalidArgumentError(absl::StrCat("it reads ", PrintableText(graph_.parameters.at(own->second.value)),
                                                   ", a parameter or constant, as layers read inputs"));
  }
  return absl::InvalidArgumentError(absl::StrCat("no layer computes its input ", PrintableText(value)));
}

absl::StatusOr<ValueView> LayerBuilder::ViewOf(const std::string& value) const {
  ADJOIN_RETURN_IF_ERROR(CheckReadable(value));
  if (!ValueOf(value).IsShapeKnown()) {
    return absl::InvalidArgumentError(absl::StrCat("the shape of its tensor ", PrintableText(value), " is not known"));
  }
  return ValueOf(value).view;
}

absl::StatusOr<std::string> LayerBuilder::SourceOf(const std::string& value, const std::string& beside) {
  const auto own = own_.find(value);
  if (own != own_.end() && !beside.empty() && stale_.count(value) == 0) return ParameterPerSample(own->second, beside);
  ADJOIN_RETURN_IF_ERROR(CheckReadable(value));
  return Materialize(ValueOf(value));
}

// Equal changes of one layer's output are one layer.
std::string LayerBuilder::StepLayer(const std::string& source, Layer layer, const std::string& name,
                                    const std::vector<int64_t>& shape) {
  const std::string key = absl::StrCat(layer.SerializeAsString(), source);
  const auto found = step_layers_.find(key);
  if (found != step_layers_.end()) return found->second;
  layer.add_input(source);
  layer.set_name(Unique(name));
  names_.insert(layer.name());
  if (trained_.count(source) > 0) trained_.insert(layer.name());
  step_layers_[key] = layer.name();
  shapes_[layer.name()] = shape;
  index_[layer.name()] = layers_.size();
  layers_.push_back(layer);
  return layer.name();
}

absl::StatusOr<std::string> LayerBuilder::Materialize(Value value) {
  if (!value.IsShapeKnown()) return value.source;
  if (!value.view.HasBatch()) value.view = value.view.WithDim(0).WithBatch(0);
  if (value.view.dims() == 1) value.view = value.view.WithDim(1);  // one number a sample
  ADJOIN_ASSIGN_OR_RETURN(const ViewSteps steps, value.view.Steps());
  std::vector<int64_t> shape = value.view.base();
  const auto reshape = [&](const std::vector<int64_t>& to) {
    Layer layer;
    if (to.size() == 2 && shape.size() > 2) {
      layer.mutable_flatten()->add_arg(1);
    } else {
      for (size_t i = 1; i < to.size(); ++i) layer.mutable_reshape()->add_arg(to[i]);
    }
    value.source = StepLayer(value.source, std::move(layer), value.reshape_name, to);
    shape = to;
  };
  if (value.reshape_name.empty()) value.reshape_name = "reshape";
  if (!steps.split.empty()) reshape(steps.split);
  if (!steps.order.empty()) {
    Layer layer;
    for (int64_t dim : steps.order) layer.mutable_permute()->add_arg(dim);
    const std::string name = value.permute_name.empty() ? "permute" : value.permute_name;
    std::vector<int64_t> permuted;
    for (int64_t dim : steps.order) permuted.push_back(shape[static_cast<size_t>(dim)]);
    value.source = StepLayer(value.source, std::move(layer), name, permuted);
    shape = permuted;
  }
  if (!steps.merged.empty()) reshape(steps.merged);
  return value.source;
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
  const auto own = own_.find(value);
  if (own != own_.end()) return graph_.IsTrained(own->second.value);
  const auto found = values_.find(TensorOf(value));
  return graph_.IsTrained(value) || (found != values_.end() && trained_.count(found->second.source) > 0);
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
  // A module of PyTorch's own is called by its path, whatever its parameters are called: one that is shared has another
  // module's name.
  if (IsLeaf(node) && !parameters.empty() && IsName(node.module)) return Unique(node.module);
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
  return Unique(OpName(node));
}

absl::StatusOr<std::string> LayerBuilder::Append(const OpNode& node, Layer layer,
                                                 const std::vector<std::string>& sources,
                                                 const std::vector<LayerParameter>& parameters) {
  bool trained = false;
  for (const auto& [role, value] : parameters) {
    trained = trained || graph_.IsTrained(value);
    if (!value.empty() && !IsParameter(value)) {
      return absl::InvalidArgumentError(
          absl::StrCat("its ", role, " is ", PrintableText(value), ", which is computed; right would be a parameter"));
    }
  }
  for (const std::string& source : sources) {
    layer.add_input(source);
    trained = trained || trained_.count(source) > 0;
  }
  layer.set_name(layer.name().empty() ? NameOf(node, parameters) : Unique(layer.name()));
  ADJOIN_RETURN_IF_ERROR(TakeParameters(parameters, layer));
  if (layer.has_parameter() && parameters.size() == 1 && graph_.buffers.count(parameters[0].second) > 0) {
    buffer_of_[layer.name()] = parameters[0].second;
  }
  names_.insert(layer.name());
  if (trained) trained_.insert(layer.name());
  index_[layer.name()] = layers_.size();
  layers_.push_back(std::move(layer));
  return layers_.back().name();
}

absl::Status LayerBuilder::Add(const OpNode& node, Layer layer, const std::vector<std::string>& inputs,
                               const std::vector<LayerParameter>& parameters) {
  if (node.outputs.empty()) return absl::InvalidArgumentError("it returns nothing");
  std::vector<std::string> sources;
  for (const std::string& input : inputs) {
    if (IsOfParameters(input)) return absl::InvalidArgumentError("it reads a function of parameters alone");
    ADJOIN_ASSIGN_OR_RETURN(std::string source, SourceOf(input));
    sources.push_back(std::move(source));
  }
  ADJOIN_ASSIGN_OR_RETURN(const std::string made, Append(node, std::move(layer), sources, parameters));
  return SetResult(node, made, AlignedInputs());
}

absl::Status LayerBuilder::AddElementWise(const OpNode& node, const std::vector<Layer>& functions,
                                          const std::string& value) {
  if (node.outputs.empty()) return absl::InvalidArgumentError("it returns nothing");
  ADJOIN_RETURN_IF_ERROR(CheckReadable(value));
  Value made = ValueOf(value);
  for (const Layer& function : functions) {
    ADJOIN_ASSIGN_OR_RETURN(made.source, Append(node, function, {made.source}));
    shapes_[made.source] = made.view.base();
  }
  return Bind(node, std::move(made));
}

absl::Status LayerBuilder::AddElementWise(const OpNode& node, Layer layer, const std::string& value,
                                          const std::vector<LayerParameter>& parameters) {
  if (node.outputs.empty()) return absl::InvalidArgumentError("it returns nothing");
  ADJOIN_RETURN_IF_ERROR(CheckReadable(value));
  Value made = ValueOf(value);
  ADJOIN_ASSIGN_OR_RETURN(made.source, Append(node, std::move(layer), {made.source}, parameters));
  shapes_[made.source] = made.view.base();
  return Bind(node, std::move(made));
}

int64_t LayerBuilder::Batch() const {
  const auto found = graph_.inputs.empty() ? graph_.tensors.end() : graph_.tensors.find(graph_.inputs[0]);
  return found == graph_.tensors.end() || found->second.shape.empty() ? 1 : found->second.shape[0];
}

std::string LayerBuilder::HintOf(const OpNode& node) const {
  const bool is_leaf = IsLeaf(node) && modules_with_parameters_.count(node.module) == 0;
  return is_leaf ? AsName(node.module) : OpName(node);
}

absl::Status LayerBuilder::CheckShape(const OpNode& node, const std::vector<int64_t>& shape) const {
  const TensorInfo* info = InfoOf(node.outputs[0]);
  if (info == nullptr || info->shape == shape) return absl::OkStatus();
  return absl::InvalidArgumentError("its result has another shape than the program says");
}

absl::Status LayerBuilder::SetResult(const OpNode& node, const std::string& source, ValueView view) {
  shapes_[source] = view.base();
  Value value;
  value.source = source;
  value.view = std::move(view);
  value.reshape_name = value.permute_name = HintOf(node);
  return Bind(node, std::move(value));
}

absl::Status LayerBuilder::SetResult(const OpNode& node, const std::string& source, const AlignedInputs& inputs) {
  if (node.outputs.empty()) return absl::InvalidArgumentError("it returns nothing");
  const TensorInfo* info = InfoOf(node.outputs[0]);
  if (info == nullptr) return SetResult(node, source, ValueView());  // an error where its shape is needed
  ADJOIN_ASSIGN_OR_RETURN(ValueView view, inputs.ResultOf(info->shape, Batch()));
  return SetResult(node, source, std::move(view));
}

absl::Status LayerBuilder::Bind(const OpNode& node, Value value) {
  ADJOIN_RETURN_IF_ERROR(CheckShape(node, value.view.shape()));
  const std::string& output = node.outputs[0];
  if (IsFloat(output) && value.view.HasBatch()) beside_ = value.source;
  if (node.in_place) {
    // The first argument of an operator that works in place is called so in all of them.
    const std::string changed = node.Tensor(node.Has("self") ? "self" : "input");
    const std::string tensor = TensorOf(changed), base = BaseOf(changed);
    if (lifted_from_.count(base) > 0) {
      return absl::InvalidArgumentError("it changes a parameter, or what is expanded of one, in place");
    }
    const auto before = values_.find(tensor);
    if (before != values_.end() && before->second.view.shape() != value.view.shape()) {
      return absl::InvalidArgumentError("it changes the shape of a tensor in place");
    }
    // All other views are of what was there before. None of them is read again, so each is visited once.
    std::vector<std::string>& views = views_[base];
    views.push_back(base);
    for (const std::string& view : views) {
      if (TensorOf(view) != tensor) stale_.insert(TensorOf(view));
    }
    views = {tensor};
    base_[output] = base;
    tensor_[output] = tensor;
    values_[tensor] = std::move(value);
    return absl::OkStatus();
  }
  values_[output] = std::move(value);
  return absl::OkStatus();
}

void LayerBuilder::ShareElements(const OpNode& node, const std::string& value) {
  const std::string& output = node.outputs[0];
  const std::string base = BaseOf(value);
  base_[output] = base;
  views_[base].push_back(output);
}

absl::Status LayerBuilder::Alias(const OpNode& node, const std::string& value, Shares shares) {
  if (node.outputs.empty()) return absl::InvalidArgumentError("it returns nothing");
  const auto own = own_.find(value);
  if (own != own_.end() && stale_.count(value) == 0) {
    ADJOIN_RETURN_IF_ERROR(CheckShape(node, own->second.view.shape()));
    own_[node.outputs[0]] = own->second;
    if (shares != Shares::kNever) own_views_[value].push_back(node.outputs[0]);
    return absl::OkStatus();
  }
  ADJOIN_RETURN_IF_ERROR(CheckReadable(value));
  ADJOIN_RETURN_IF_ERROR(CheckShape(node, ValueOf(value).view.shape()));
  if (shares != Shares::kNever) ShareElements(node, value);
  if (shares == Shares::kAlways) tensor_[node.outputs[0]] = TensorOf(value);
  if (shares != Shares::kAlways) values_[node.outputs[0]] = ValueOf(value);
  return absl::OkStatus();
}

void LayerBuilder::Undo(const Mark& mark, const OpNode& node) {
  beside_ = mark.beside;
  if (layers_.size() == mark.layers && weights_.size() == mark.weights) return;
  while (layers_.size() > mark.layers) {
    Layer layer = layers_.back();
    layers_.pop_back();
    const std::string name = layer.name();
    names_.erase(name);
    index_.erase(name);
    shapes_.erase(name);
    trained_.erase(name);
    constant_kinds_.erase(name);
    buffer_of_.erase(name);
    if (layer.parameter().combine() == "value") {
      for (auto at = parameter_layers_.begin(); at != parameter_layers_.end();) {
        at = at->second == name ? parameter_layers_.erase(at) : std::next(at);
      }
    }
    if (layer.input_size() != 1) continue;
    const std::string source = layer.input(0);
    layer.clear_name();
    layer.clear_input();
    const auto step = step_layers_.find(absl::StrCat(layer.SerializeAsString(), source));
    if (step != step_layers_.end() && step->second == name) step_layers_.erase(step);
  }
  for (; weights_.size() > mark.weights; weights_.pop_back()) {
    const ImportedWeight& weight = weights_.back();
    constant_owner_.erase(weight.name);
    owner_.erase(weight.source);
    role_.erase(weight.source);
  }
  elements_.resize(std::min(elements_.size(), layers_.size()));
  constant_elements_ = mark.constant_elements;
  next_constant_ = mark.next_constant;
  for (const std::string& output : node.outputs) {
    const auto value = values_.find(output);
    if (value != values_.end() && names_.count(value->second.source) == 0) values_.erase(value);
  }
}

void LayerBuilder::Forget(const OpNode& node) {
  for (const std::string& output : node.outputs) forgotten_.insert(output);
}

}  // namespace adjoin
